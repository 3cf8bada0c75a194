"""Statements about whole models, proved or refuted."""
