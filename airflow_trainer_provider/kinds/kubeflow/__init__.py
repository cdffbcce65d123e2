"""The kinds of the Kubeflow Training Operator v1."""
