"""`bendybus …`: a bus on this machine, and a hand on any bus.

Belongs here: commands, tables, starting local processes with `python -m`. Does not belong here:
rules of the bus (domain), what manifests mean (crds), anything of a server: those are started,
never imported.
"""
