"""The connection to each partition: streams, probe, circuit breaker, unary calls."""
