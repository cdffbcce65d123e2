"""Triggers that wait for training jobs without a worker."""
