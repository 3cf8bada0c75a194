"""Answers problems: tables and sweeps, tried moves, cuts, the proof as data; knows no row, attacker or model."""
