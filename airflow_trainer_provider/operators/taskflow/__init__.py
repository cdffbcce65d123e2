"""Functions of a DAG file as jobs: ``@task.pytorch_job`` and its siblings."""
