"""The bare pipeline: client, pass-through front end, partitions on SQLite, no broker logic.

What Python, gRPC and SQLite can do on a machine at all; the yardstick for Bendybus in the same run.
"""
