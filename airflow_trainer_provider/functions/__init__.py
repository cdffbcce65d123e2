"""A Python function as a job: what of its DAG file travels, and the runner that calls it on each rank."""
