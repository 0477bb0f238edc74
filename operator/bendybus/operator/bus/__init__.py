"""The way to the partitions of a bus, and what they answer."""
