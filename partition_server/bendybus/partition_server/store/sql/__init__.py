"""The SQL of a partition's file: `schema.sql`, `queries.sql`, `migrations/`."""
