"""How pods and conditions become the status of a job, and which replica failed first."""
