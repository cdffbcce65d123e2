"""The Training page: the jobs of all DAGs that the user may read."""
