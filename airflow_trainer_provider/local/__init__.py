"""The same job as processes on this machine, each framework's own rendezvous on loopback ports."""
