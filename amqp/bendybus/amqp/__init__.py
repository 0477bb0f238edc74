"""An AMQP 1.0 engine without I/O: bytes in, events out; commands in, bytes out.

Here belong the rules of the protocol alone. What a queue is, who may do what, sockets, clocks and
threads are the business of who drives the engine.
"""
