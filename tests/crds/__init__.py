"""Tests of `crds/`."""
