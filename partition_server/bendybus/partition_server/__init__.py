"""The broker of one partition: rules (core), SQLite, gRPC and threads (shell).

Belongs here: what happens to messages inside one partition. Does not belong here: other
partitions, clients, Kubernetes.
"""
