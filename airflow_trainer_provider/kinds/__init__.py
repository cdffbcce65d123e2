"""One file per Kubernetes kind: how a job becomes its objects, and how its status is read from them. Pure."""
