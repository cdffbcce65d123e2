"""Tasks of which a few hundred thousand lines reach the log: printed, logged by a trigger, and of a local job."""

import os
import sys

from airflow.sdk import DAG, BaseOperator, task

from airflow_trainer_provider import TrainJobOperator
from benchmarks.lines_trigger import LINE, LinesTrigger

LINES = int(os.environ.get("BENCH_LINES", "1000"))


class LogsInTrigger(BaseOperator):
    """Waits for the trigger that logs the lines."""

    def execute(self, context):
        """Defer."""
        self.defer(trigger=LinesTrigger(LINES), method_name="done")

    def done(self, context, event):
        """Succeed."""


def prints() -> None:
    """Print the lines."""
    for number in range(LINES):
        print(LINE.format(number))


with DAG("lines_printed", schedule=None):
    task(prints, task_id="train")()

with DAG("lines_logged_in_trigger", schedule=None):
    LogsInTrigger(task_id="train")

for how in ("waiting", "deferred"):
    with DAG(f"lines_{how}", schedule=None):
        TrainJobOperator(
            task_id="train",
            framework="jax",
            backend="local",
            command=[sys.executable, "-c", f"for number in range({LINES}): print({LINE!r}.format(number))"],
            deferrable=how == "deferred",
        )
