"""The page at `/`: static files, no build step."""
