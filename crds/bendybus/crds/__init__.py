"""The manifests of Bendybus as models: what Kubernetes stores and what `bendybus up` reads.

Belongs here: fields, defaults, loading, the CRDs generated from them. Does not belong here: rules
of entities (they are in `bendybus.domain`, and called from here), anything that talks to a bus.
"""
