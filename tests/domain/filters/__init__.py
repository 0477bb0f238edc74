"""The rule language of topics."""
