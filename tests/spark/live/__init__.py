"""Real Spark on this machine, and real buses: collected only where Spark is installed."""
