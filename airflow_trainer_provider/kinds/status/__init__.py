"""Computes the status of a job from its pods and conditions, and which replica failed first."""
