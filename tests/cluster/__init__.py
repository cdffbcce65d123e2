"""A real Kubernetes with real Kubeflow controllers on this machine, for tests: see docs/contributing/cluster.md."""
