"""The report, one HTML page about one or several models; and learning curves."""
