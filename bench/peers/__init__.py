"""Other brokers, started on loopback ports with data in a temporary folder, then stopped.

Each as its best Python client uses it, durable as it is shipped or as its manual says. A broker
that is not installed is a row that says so; nothing here installs anything.
"""
