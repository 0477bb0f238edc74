"""Spark reads and writes entities of the bus: a data source without any code for the JVM.

Belongs here: what Spark calls, and what it needs of the bus through the public client. Does not
belong here: rules of the bus, and anything about pods.
"""
