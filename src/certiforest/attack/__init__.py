"""Attackers: how far a row may be moved, what that costs to the last bit, and which leaves it reaches."""
