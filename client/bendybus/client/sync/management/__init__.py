"""Synchronous administration: generated from `aio/management/` by `make sync`."""
