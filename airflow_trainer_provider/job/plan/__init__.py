"""A job laid out: how many replicas of each role, and what each of them runs."""
