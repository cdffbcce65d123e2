"""The process that runs one local job: it starts the replicas, restarts them, and writes the status."""
