"""One file per Kubernetes kind: how a job becomes its objects, and how those tell how it stands. Pure."""
