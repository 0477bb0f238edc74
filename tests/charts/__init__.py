"""The chart, as Helm renders it. Tests that need `helm` are skipped where the PATH has none."""
