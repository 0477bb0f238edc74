"""The chart, as Helm renders it. Where there is no `helm` on the PATH, these tests are skipped."""
