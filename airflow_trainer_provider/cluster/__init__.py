"""Jobs on a Kubernetes cluster: the only Kubernetes I/O. Async, on plain dicts, without Airflow."""
