"""One table of trainings, each in a task that waits on its worker and in one that is deferred."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG

from airflow_trainer_provider import TrainJobOperator, TrainJobSensor

JOB: dict[str, Any] = {
    "framework": "pytorch",
    "backend": "local",
    "launcher": "none",
    "num_nodes": 1,
    "retries": 0,
    "retry_delay": timedelta(seconds=1),
    "run_policy": {"grace_period_seconds": 1},
}
_WRITE = "import os, sys; open(os.environ['TRAINER_RESULT_PATH'], 'w').write({})"
_SLEEP = "import time; time.sleep(600)"
#: Enough for the job to start on a busy machine.
_LIMIT = timedelta(seconds=20)


def _python(code: str) -> list[str]:
    return ["python", "-c", code]


#: Case -> what its operator has beside JOB.
CASES: dict[str, dict[str, Any]] = {
    "has_a_result": {"command": _python(_WRITE.format("""'{"metrics": {"loss": 0.5}, "answer": [1, 2]}'"""))},
    "has_no_result": {"command": _python("pass")},
    "has_a_result_that_no_database_keeps": {"command": _python(_WRITE.format(r"""'{"text": "a\\u0000b"}'"""))},
    "has_a_result_that_is_no_json": {"command": _python(_WRITE.format("'{'"))},
    "raises": {"command": _python("raise ValueError('enough')"), "retries": 1},
    "lacks_a_module": {"command": _python("import no_such_module"), "retries": 1},
    "is_killed": {"command": _python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")},
    "is_restarted": {
        "command": _python("import os, sys; sys.exit(os.environ['TRAINER_ATTEMPT'] == '0')"),
        "run_policy": {"backoff_limit": 1},
    },
    "passes_its_deadline": {"command": _python(_SLEEP), "run_policy": {"active_deadline_seconds": 2}},
    "passes_the_time_of_its_task": {"command": _python(_SLEEP), "execution_timeout": _LIMIT},
    "has_a_wrong_spec": {"command": _python("pass"), "framework": "pytroch", "retries": 1},
}
#: A task without an end of its own, and what sensors make of the failure of its job.
SENSORS: dict[str, dict[str, Any]] = {"sensor_fails": {}, "sensor_skips": {"soft_fail": True}}
HOW = ("waiting", "deferred")


class Unloaded(TrainJobOperator):
    """Does more with a result, for which there is no room."""

    def process_result(self, context: Any, summary: dict[str, Any]) -> Any:
        """Fail."""
        raise RuntimeError(f"no room for {summary['metrics']}")


with DAG("same_end", schedule=None):
    failing = TrainJobOperator(
        task_id="sensed", wait_for_completion=False, **JOB | {"command": _python("raise ValueError('sensed')")}
    )
    for how in HOW:
        deferrable = how == "deferred"
        for case, fields in CASES.items():
            TrainJobOperator(task_id=f"{case}_{how}", deferrable=deferrable, **JOB | fields)
        Unloaded(task_id=f"cannot_process_{how}", deferrable=deferrable, **JOB | CASES["has_a_result"])
        for case, fields in SENSORS.items():
            TrainJobSensor(
                task_id=f"{case}_{how}", job=failing.output, deferrable=deferrable, poke_interval=1, **fields
            )

# Its days are over: only a backfill has runs of it.
_DAYS: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "end_date": datetime(2026, 1, 2, tzinfo=timezone.utc),
}
with DAG("backfilled", schedule="@daily", catchup=False, **_DAYS):
    for how in HOW:
        TrainJobOperator(task_id=how, deferrable=how == "deferred", **JOB | CASES["has_a_result"])
