"""Plans of several runs: what is to be done, and doing it here or as jobs of a cluster."""
