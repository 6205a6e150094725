"""From stored rows to HTML, Markdown, LaTeX, CSV and Parquet; computes nothing."""
