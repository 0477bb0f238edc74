"""Other brokers, started on loopback ports with data in a temporary folder, then stopped.

Each as its best Python client uses it, durable as it is shipped or as its manual says. A broker
that is missing or does not start is a row with the reason. Nothing is installed on the system; the
jars of those that run in a JVM are fetched into the virtual environment.
"""
