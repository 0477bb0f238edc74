"""Bendybus, measured through its public client against `bendybus up`."""
