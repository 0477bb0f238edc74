"""The rules of the bus: values, keys, numbers, limits, errors.

Belongs here: what every room must agree on. Does not belong here: I/O, clocks, randomness,
protobuf, anything that only one room needs.
"""
