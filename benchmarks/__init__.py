"""What branches cost, as ratios to ordinary attention timed in the same run: see README.md."""
