"""The objects that all kinds render: pods, labels, SSH keys, launch scripts, files."""
