"""Sensors that wait for training jobs."""
