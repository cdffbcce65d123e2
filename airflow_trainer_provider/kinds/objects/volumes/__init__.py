"""The volumes of a job's pods: mounts, the claims that are created for them, and what fetches data into them."""
