"""The volumes of a job's pods: mounts, the claims that are created for them, and the init containers that fetch data
into them.
"""
