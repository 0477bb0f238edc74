"""AMQP 1.0 for clients: connections and their links, and messages and errors as AMQP has them.

The protocol itself (frames, sessions, links) is in `bendybus.amqp`, the rules of the bus in `core`.
"""
