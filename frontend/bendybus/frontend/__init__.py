"""The front end: routes sends, gathers receives, settles by token, aggregates, fails over.

Belongs here: what makes many partitions look like one entity. Does not belong here: what happens
to messages inside a partition, durable state, Kubernetes.
"""
