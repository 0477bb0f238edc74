"""The ready-made jobs: each is a function, and a command of `bendybus pipeline`."""
