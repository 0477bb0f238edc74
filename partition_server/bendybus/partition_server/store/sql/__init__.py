"""The SQL of a partition's file: `schema.sql`, `queries.sql` and those of one matter each."""
