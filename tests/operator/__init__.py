"""Tests of the operator: pure cores by value, the shell against an API server in memory."""
