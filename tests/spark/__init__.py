"""Tests of the Spark room; those in live/ run with real Spark, by `make test-spark`."""
