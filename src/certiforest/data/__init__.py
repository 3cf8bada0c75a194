"""Rows and labels from files and by name."""
