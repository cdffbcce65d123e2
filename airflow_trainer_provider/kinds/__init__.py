"""The Kubernetes kinds: how a job becomes its objects, and how its status is read from them. All functions are pure."""
