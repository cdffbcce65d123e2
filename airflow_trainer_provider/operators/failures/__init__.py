"""The consequences of a failure: the exception that Airflow gets, and whether this try or the next one continues."""
