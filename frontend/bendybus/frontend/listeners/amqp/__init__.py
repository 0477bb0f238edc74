"""AMQP 1.0 for clients: messages and errors of the bus as AMQP has them, and back.

The protocol itself (frames, sessions, links) is `bendybus.amqp`; rules of the bus are in `core`.
"""
