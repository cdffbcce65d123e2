"""How the training runs in its pods or processes: launcher, rendezvous, runtime, exit codes, and further tools."""
