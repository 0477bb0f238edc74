"""The synchronous surface: generated from `aio/` by `make sync`, except for the lock renewer."""
