"""Plain Kubernetes: a Service with Jobs, and Jobs that users write themselves."""
