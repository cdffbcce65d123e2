"""Following the logs of containers: cursor, budget, limiter."""
