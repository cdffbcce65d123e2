"""A Python function as a job: the code of its DAG file that is copied, and the runner that calls it on each rank."""
