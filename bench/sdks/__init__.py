"""Official SDKs of other languages, on a bus and on a server that stores nothing."""
