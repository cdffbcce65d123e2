"""A local job that prints its secrets."""

from __future__ import annotations

import json

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

#: The prefix of all secrets. Only the environment of Airflow contains it.
PLANTED = "{{ var.value.planted }}"
SCRIPT = """
import json, os, sys
for name in ("DB_PASSWORD", "DATABASE_URL", "CONFIG"):
    print(os.environ[name])
print(*sys.argv)
secret = os.environ["DB_PASSWORD"]
if "fail" in sys.argv:
    raise ValueError(f"cannot log in with {secret}")
with open(os.environ["TRAINER_RESULT_PATH"], "w") as file:
    json.dump({"model": "m", "where": f"postgres://u:{secret}@db"}, file)
"""

for how in ("waiting", "deferred"):
    with DAG(f"secrets_{how}", schedule=None, params={"mode": "fail"}):
        TrainJobOperator(
            task_id="train",
            framework="jax",
            backend="local",
            deferrable=how == "deferred",
            command=["python", "-u", "-c", SCRIPT],
            args=["{{ params.mode }}", f"--password={PLANTED}-a1", "--token", f"{PLANTED}-a2"],
            env={
                "DB_PASSWORD": f"{PLANTED}-e1",
                "DATABASE_URL": f"postgres://u:{PLANTED}-e2@db/x",
                "CONFIG": json.dumps({"db": {"password": f"{PLANTED}-e3"}}),
            },
        )
