"""Rows and labels: files of every kind, datasets by name, splits."""
