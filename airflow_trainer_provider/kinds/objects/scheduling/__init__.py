"""What a pod asks the scheduler for: resources, and where it may run."""
