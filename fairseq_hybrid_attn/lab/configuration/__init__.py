"""What configs/ says: settings, tables, rows and columns."""
