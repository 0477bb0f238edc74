"""A partition's file: what it keeps, the Store protocol, SQLite and the store in memory."""
