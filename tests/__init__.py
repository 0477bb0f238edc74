"""Tests: one folder per room, `integration/` for several rooms at once."""
