"""What importing the operators adds to ``import airflow.sdk``, in time and memory, beside the pod operator.

Every DAG file pays it at each parse. A process of its own for each figure; bytecode is compiled by a first run that
does not count.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

from benchmarks.report import heading, table, verdict

RUNS = 7
MOST_MILLISECONDS = 30.0
MOST_MIB = 5.0

OURS = "from airflow_trainer_provider import *"
PEER = "from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator"

_PROBE = """
import gc, json, os, sys, time
import airflow.sdk
from airflow.sdk import BaseOperator, BaseSensorOperator

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before, start = resident(), time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps([seconds * 1e3, (resident() - before) / 2**20]))
"""


def measure(statement: str) -> tuple[float, float]:
    """Median milliseconds and MiB that a statement adds.

    :param statement: an import.
    """
    with tempfile.TemporaryDirectory() as home:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        figures = []
        for _ in range(RUNS + 1):
            probe = [sys.executable, "-c", _PROBE, statement]
            output = subprocess.run(probe, env=env, check=True, capture_output=True, text=True).stdout
            figures.append(json.loads(output.splitlines()[-1]))
    milliseconds, mebibytes = zip(*figures[1:], strict=True)
    return median(milliseconds), median(mebibytes)


def main() -> bool:
    """Print the table.

    :return: whether the bounds were held.
    """
    heading(f"Importing the operators, over `import airflow.sdk` (median of {RUNS})")
    ours = measure(OURS)
    rows = [("this provider: all operators and the sensor", f"{ours[0]:.1f}", f"{ours[1]:.1f}", "1")]
    if importlib.util.find_spec("airflow.providers.cncf"):
        peer = measure(PEER)
        ratio = f"{peer[0] / ours[0]:.0f} x time"
        rows.append(("cncf.kubernetes: KubernetesPodOperator", f"{peer[0]:.1f}", f"{peer[1]:.1f}", ratio))
    table(("import", "ms", "MiB", "ratio"), rows)
    return verdict(
        f"at most {MOST_MILLISECONDS:g} ms and {MOST_MIB:g} MiB: {ours[0]:.1f} ms, {ours[1]:.1f} MiB",
        ours[0] < MOST_MILLISECONDS and ours[1] < MOST_MIB,
    )
