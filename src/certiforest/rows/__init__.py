"""Many rows: screens for blocks, verdicts of single rows, radii, certificates and their file."""
