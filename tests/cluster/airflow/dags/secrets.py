"""A job with secrets in many places, which it prints."""

from __future__ import annotations

import json

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator

#: The prefix of all secrets. Only the environment of Airflow contains it.
PLANTED = "{{ var.value.planted }}"
SCRIPT = """
import json, os, sys, time
for value in sys.argv + list(os.environ.values()):
    for line in value.splitlines():
        print(line)
secret = os.environ["DB_PASSWORD"]
if "fail" in sys.argv:
    time.sleep(1)  # the container runtime mixes what comes at once on stdout and stderr
    raise ValueError(f"cannot log in with {secret}")
with open(os.environ["TRAINER_RESULT_PATH"], "w") as file:
    json.dump({"model": "m", "where": f"postgres://u:{secret}@db"}, file)
"""

for how in ("waiting", "deferred"):
    with DAG(
        f"secrets_{how}",
        schedule=None,
        params={"backend": "native", "namespace": "default", "mode": "fail"},
    ):
        TrainJobOperator(
            task_id="train",
            framework="xgboost",
            num_nodes=2,
            deferrable=how == "deferred",
            backend="{{ params.backend }}",
            namespace="{{ params.namespace }}",
            image="trainer.test/worker:test",
            command=["python3", "-u", "-c", SCRIPT],
            args=["{{ params.mode }}", f"--password={PLANTED}-a1", "--token", f"{PLANTED}-a2"],
            env={
                "DB_PASSWORD": f"{PLANTED}-e1",
                "DATABASE_URL": f"postgres://u:{PLANTED}-e2@db/x",
                "CONFIG": json.dumps({"db": {"password": f"{PLANTED}-e3"}}),
                "HEADERS": f"Authorization: Bearer {PLANTED}-e4",
                "QUERY": f"https://x/y?api_key={PLANTED}-e5&page=1",
                "DEPLOY_KEY": f"-----BEGIN PRIVATE KEY-----\n{PLANTED}-e6\n-----END PRIVATE KEY-----",
            },
            pod_template={
                "spec": {
                    "containers": [
                        {"name": "train", "env": [{"name": "HUB_TOKEN", "value": f"{PLANTED}-t1"}]},
                        {
                            "name": "side",
                            "image": "trainer.test/tiny:test",
                            "command": ["sh", "-c", "echo $SIDE_SECRET"],
                            "env": [{"name": "SIDE_SECRET", "value": f"{PLANTED}-t2"}],
                        },
                    ]
                }
            },
            resources_per_node={"cpu": {"requests": "50m"}},
            run_policy={"grace_period_seconds": 1},
        )
