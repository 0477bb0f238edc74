"""Contracts between the processes of the bus; never for clients."""
