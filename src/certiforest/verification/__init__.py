"""The room that proves: what an attacker can do to a row, exactly."""
