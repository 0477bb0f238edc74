"""Tests of `bendybus.wire`."""
