"""The whole of it on a real cluster: real API server, kubelets, pods, volumes and faults."""
