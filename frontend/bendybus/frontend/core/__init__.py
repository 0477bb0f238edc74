"""Send, receive, settle, browse over many partitions: rules, and what performs them."""
