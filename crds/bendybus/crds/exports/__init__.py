"""Manifests of a bus, written in the forms of other programs, with a report on what is lost."""
