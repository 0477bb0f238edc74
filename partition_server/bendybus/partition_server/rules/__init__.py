"""The rules of a partition, one file per matter. No I/O, no clock: time is an argument."""
