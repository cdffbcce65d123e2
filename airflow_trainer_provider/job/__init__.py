"""A job's life, wherever it runs: its identity, status, outcome, and what a backend must be able to do."""
