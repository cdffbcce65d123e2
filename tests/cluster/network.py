"""Addresses of the test cluster.

All of them exist only inside the node's own network namespace, but for one loopback port, so nothing here can meet an
address of the machine's surroundings.
"""

from __future__ import annotations

#: The node, its API server and its DNS server.
NODE_ADDRESS = "10.245.0.1"
POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
#: First address of SERVICE_CIDR: the Service named ``kubernetes``.
API_SERVICE_ADDRESS = "10.96.0.1"
#: The API server, at 127.0.0.1 on the machine as well as inside the node: one kubeconfig serves both.
API_PORT = 26443
ETCD = "http://127.0.0.1:2379"
CLUSTER_DOMAIN = "cluster.local"
NODE_NAME = "node1"
