"""HTTP to the API server: requests, streams, retries, and the recovery after an outage."""
