"""Why a job failed: the cause of the first failure, and whether a retry can help."""
