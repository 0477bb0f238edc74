"""Runs the tests and samples of azure-servicebus, from its source distribution, on a local bus.

This folder holds the shims that they import, the list of tests known to fail with reasons, and the
commands that run them; none of their code.
"""
