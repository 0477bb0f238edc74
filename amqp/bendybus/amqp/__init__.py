"""An AMQP 1.0 engine without I/O: bytes in, events out; commands in, bytes out.

Only the rules of the protocol belong here. Queues, rights, sockets, clocks and threads are the
caller's.
"""
