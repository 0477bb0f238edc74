"""Tests of all rooms; one package per room."""
