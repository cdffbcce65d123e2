"""Following the logs of a job's eight replicas, beside ``kubectl logs -f`` on the same pods.

Twice: while the replicas write as fast as they can, both followers at the same time; and afterwards, from the beginning
to the end, each alone, now one first and now the other. Each is a process of its own, from its start on, whose output
goes into a file. Every replica's lines are compared with what it wrote, in their order.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from airflow_trainer_provider.kinds.objects import labels
from benchmarks.cluster import Bench, bench_namespace, running_cluster
from benchmarks.report import heading, raw, table, verdict

REPLICAS = 8
#: Of each replica. With what containerd writes beside them they stay below the 10 MiB at which the kubelet begins a new
#: file.
LINES = 40_000
RUNS = 6
LEAST_RATIO = 0.8
#: Seconds until all replicas run, and both followers are there.
_START = 25
_PADDING = "x" * 170
_SCRIPT = """
import os, sys, time
name, padding = os.environ["TRAINER_REPLICA"], "x" * {padding}
print(name, "is there", flush=True)
time.sleep(max(0, {start} - time.time()))
for number in range({lines}):
    sys.stdout.write(f"{{name}} {{number:06d}} {{padding}}\\n")
"""
OURS, KUBECTL = "this provider", "kubectl logs -f"


@dataclass(frozen=True)
class Figures:
    """The result of one follower's run.

    :param seconds: until its last line was out.
    :param cpu: seconds of CPU.
    :param lost: lines that are missing or not in their place.
    """

    seconds: float
    cpu: float
    lost: int


class Follower:
    """A process that follows the job from now on.

    :param name: of the follower.
    :param command: its words.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self._output = folder / name.replace(" ", "-")
        self._started = time.time()
        with self._output.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file)

    def figures(self, lines: int, since: float | None = None) -> Figures:
        """Wait for its end.

        :param lines: what each replica wrote.
        :param since: when the time begins; None for when the process was started.
        """
        _, status, usage = os.wait4(self._process.pid, 0)
        seconds = self._output.stat().st_mtime - (since or self._started)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode:
            raise RuntimeError(f"{self._output.name} has failed")
        with self._output.open() as file:
            lost = _lost(file, lines)
        return Figures(seconds, usage.ru_utime + usage.ru_stime, lost)


def measure(bench: Bench, lines: int, runs: int, start: float) -> tuple[dict[str, Figures], list[dict[str, Figures]]]:
    """Of each follower: its figures while the job runs, and those of each run afterwards.

    :param lines: of each replica.
    :param runs: afterwards.
    :param start: seconds until the replicas begin to write.
    """
    kubectl = bench.access.kubectl
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begins = time.time() + start
        kubeconfig, job = folder / "kubeconfig", folder / "job.yaml"
        kubeconfig.write_text(bench.kubeconfig)
        job.write_text(yaml.safe_dump(_job(lines, begins)))
        place = (f"--kubeconfig={kubeconfig}", f"--namespace={bench.namespace}")
        ours = (sys.executable, "-m", "airflow_trainer_provider")
        submitted = subprocess.run(
            [*ours, "submit", *place, "--backend=native", str(job)], check=True, capture_output=True, text=True
        )
        job_name = yaml.safe_load(submitted.stdout)["name"]
        selector = f"--selector={labels.JOB}={job_name}"
        kubectl("wait", "pod", f"--namespace={bench.namespace}", selector, "--for=condition=Ready", "--timeout=60s")
        every = (selector, f"--max-log-requests={REPLICAS}", "--tail=-1", "--prefix", "--timestamps")
        commands = {
            KUBECTL: (str(kubectl.program), "logs", *place, "--follow", *every),
            OURS: (*ours, "logs", *place, "--follow", job_name),
        }
        both = [(name, Follower(name, command, folder)) for name, command in commands.items()]
        time.sleep(3)
        if time.time() > begins:
            raise RuntimeError("the replicas began to write before the followers were there")
        live = {name: follower.figures(lines, begins) for name, follower in both}
        alone = []
        for number in range(runs):
            # Who comes second finds the files' pages in memory.
            order = (KUBECTL, OURS) if number % 2 == 0 else (OURS, KUBECTL)
            alone.append({name: Follower(name, commands[name], folder).figures(lines) for name in order})
    return live, alone


def main(*, quick: bool = False) -> bool:
    """Print the table.

    :param quick: only show that it works.
    :return: whether the bounds were held.
    """
    lines, runs = (1000, 1) if quick else (LINES, RUNS)
    size = REPLICAS * sum(len(line) + 1 for line in _written(0, lines)) / 1e6
    heading(f"Following {REPLICAS} replicas' logs of {size:.0f} MB together")
    with running_cluster(), bench_namespace() as bench:
        live, alone = measure(bench, lines, runs, _START)
    logs = {"as it is written": [live], "afterwards": alone}
    ratios = {what: median(pair[KUBECTL].seconds / pair[OURS].seconds for pair in logs[what]) for what in logs}
    rows = [
        _row(what, name, pairs, size, f"{ratios[what]:.2f}" if name == OURS else "1")
        for what, pairs in logs.items()
        for name in (KUBECTL, OURS)
    ]
    table(("log", "follower", "MB/s", "ratio", "CPU s", "lines lost"), rows)
    raw({name: [vars(pair[name]) for pair in (live, *alone)] for name in (KUBECTL, OURS)})
    lost, worst = sum(pair[OURS].lost for pair in (live, *alone)), min(ratios.values())
    held = verdict(f"at least {LEAST_RATIO:g} of kubectl's throughput: {worst:.2f}", worst >= LEAST_RATIO)
    return verdict(f"no line lost: {lost}", lost == 0) and held


def _row(what: str, name: str, pairs: Sequence[dict[str, Figures]], size: float, ratio: str) -> tuple[str, ...]:
    """A follower of a log in the table.

    :param size: of all lines, in MB.
    """
    seconds, cpu = (median(getattr(pair[name], each) for pair in pairs) for each in ("seconds", "cpu"))
    lost = sum(pair[name].lost for pair in pairs)
    return what, name, f"{size / seconds:.1f}", ratio, f"{cpu:.1f}", str(lost)


def _job(lines: int, start: float) -> dict[str, Any]:
    script = _SCRIPT.format(lines=lines, start=start, padding=len(_PADDING))
    return {
        "framework": "jax",
        "image": "trainer.test/worker:test",
        "command": ["python3", "-c", script],
        "num_nodes": REPLICAS,
        "resources_per_node": {"cpu": "20m", "memory": "64Mi"},
        "run_policy": {"grace_period_seconds": 1},
    }


def _written(replica: int, lines: int) -> list[str]:
    name = f"worker-{replica}"
    return [f"{name} is there", *(f"{name} {number:06d} {_PADDING}" for number in range(lines))]


def _lost(output: Iterable[str], lines: int) -> int:
    """How many lines of all replicas are missing in a follower's output, or not in their place.

    :param lines: what each wrote.
    """
    found: dict[str, list[str]] = {}
    for line in output:
        # Before it stand a follower's own words: whose line it is, and when it was written.
        text = line[line.find(" worker-") + 1 :].rstrip("\n")
        found.setdefault(text.partition(" ")[0], []).append(text)
    lost = 0
    for replica in range(REPLICAS):
        got, wanted = found.get(f"worker-{replica}", []), _written(replica, lines)
        if _digest(got) != _digest(wanted):
            wrong = sum(one != other for one, other in zip(got, wanted, strict=False))
            lost += wrong + abs(len(got) - len(wanted))
    return lost


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
