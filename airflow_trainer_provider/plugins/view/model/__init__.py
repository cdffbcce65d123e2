"""The models of the views, made of plain values, without a database, Airflow or HTTP."""
