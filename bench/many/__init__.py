"""Many programs that each await one message at a time: how people use a bus."""
