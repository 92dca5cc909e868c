"""Files, and making them: text, YAML, atomic results; steps, locks, processes, provenance."""
