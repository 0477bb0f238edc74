"""gRPC in front of a partition: who may call, and frames to commands and back. No rules."""
