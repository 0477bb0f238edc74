"""Writing: rows become messages, each stored once whatever attempt brings it."""
