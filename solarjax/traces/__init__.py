"""Real traces: one file format and importers. numpy only."""
