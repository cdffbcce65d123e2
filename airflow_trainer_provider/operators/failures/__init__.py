"""What a failure means: the exceptions that Airflow gets, and whether the same try, or the next one, goes on."""
