"""Access to a bus on a cluster, through kubectl."""
