"""The way to each partition: streams, echoes, breaker."""
