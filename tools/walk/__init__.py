"""The walks of the bus: which files and functions an operation goes through, and their budgets."""
