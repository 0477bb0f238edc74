"""Reading: which ranges of which partitions, their pages, and what becomes of them."""
