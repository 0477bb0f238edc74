"""What clients speak to: the gRPC services. They translate; rules are in `core`."""
