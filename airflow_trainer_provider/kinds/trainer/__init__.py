"""The kinds of Kubeflow Trainer v2."""
