"""A bus on a cluster: the way there, with kubectl."""
