"""Records of jobs for other systems: metrics, asset events, lineage, and Airflow's task state store."""
