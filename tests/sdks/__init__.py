"""Official SDKs of other languages, unmodified, on a bus: `make sdks`."""
