"""How far a training is, and how its replicas stand over time, as views show it."""
