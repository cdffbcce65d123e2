"""What Airflow loads at its start."""
