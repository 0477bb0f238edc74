"""The Kubernetes API, and the names of what the operator keeps there."""
