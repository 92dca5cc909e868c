"""Files: text line by line, YAML, and results that are written atomically."""
