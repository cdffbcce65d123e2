"""The Training views: an app in Airflow's API server, and the pages that it serves."""
