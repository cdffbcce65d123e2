"""The objects that every kind writes: pods, labels, SSH keys, launch scripts, files."""
