"""Running steps: what is up to date, what is stale, what to resume, and one process at a time."""
