"""A job's place in a queue, and when the queue may admit it."""
