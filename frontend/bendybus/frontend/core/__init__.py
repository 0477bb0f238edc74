"""The operations over many partitions, one module each. Values in, values out; no gRPC."""
