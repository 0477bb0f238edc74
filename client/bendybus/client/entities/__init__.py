"""Entities as administration shows them: models, and their conversion from and to the contract."""
