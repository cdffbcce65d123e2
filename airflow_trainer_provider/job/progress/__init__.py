"""The progress of a training, and the states of its replicas over time, as views show them."""
