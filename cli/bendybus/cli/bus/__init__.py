"""What commands do to a bus, through the public client and its management service."""
