"""What both surfaces share: the I/O thread, connections, streams, and their rules."""
