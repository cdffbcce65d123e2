"""What the views show, made of plain values: no database, no Airflow, no HTTP."""
