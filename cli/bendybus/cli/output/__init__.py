"""What commands read and print: tables, JSON lines."""
