"""How a cluster is reached: connections, kubeconfigs, credentials and their renewal."""
