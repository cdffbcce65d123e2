"""The state of a job as the cluster has it: its objects, its pods, its status."""
