"""The Training tab of a DAG: the runs of a training task, side by side."""
