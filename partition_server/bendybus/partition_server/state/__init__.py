"""What a partition holds in memory: queues, the catalogue, outcomes to remember, one turn."""
