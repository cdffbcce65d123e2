"""The Airflow plugin: a listener that ends jobs, and the views of jobs in Airflow's UI."""
