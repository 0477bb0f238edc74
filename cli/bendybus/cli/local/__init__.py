"""A bus on this machine: its processes, ports and data directory."""
