"""Messages: what applications write and read, and the columns that carry them."""
