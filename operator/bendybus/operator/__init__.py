"""The operator: turns manifests into pods and entity specs, and says in their status how it is.

What belongs here: rules of manifests on a cluster (`plan`, `conditions`, `validation`), builders of
child objects, and the shell that speaks to Kubernetes and to partitions. What does not: rules of
entities (domain) and of manifests by themselves (crds). The bus works while the operator is down.
"""
