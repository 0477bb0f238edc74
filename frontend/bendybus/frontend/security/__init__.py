"""Authentication, and the rights of each operation. Knows no protocol."""
