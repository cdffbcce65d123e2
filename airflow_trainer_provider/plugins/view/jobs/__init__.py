"""The Training page: the jobs of all DAGs that a person may read."""
