"""``python -m tests.cluster test``: every cluster test, each profile in turn, and the table of kinds at the end.

``python -m tests.cluster smoke``: the smoke tests on a profile of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import preflight
from tests.cluster.access import KUBECONFIG_VARIABLE
from tests.cluster.cluster import Cluster, down
from tests.cluster.locks import locked
from tests.cluster.paths import HERE, ROOT, STATE
from tests.cluster.profiles import OF_TESTS, PROFILES
from tests.cluster.smoke import SMOKE

#: Names the profile whose tests pytest takes.
PROFILE_VARIABLE = "TRAINER_TEST_PROFILE"
#: Names the file to which tests add how long a job took.
TIMES_VARIABLE = "TRAINER_TEST_TIMES"
#: Names the folder in which each run of pytest leaves its JUnit report: 1-none.xml, 2-kubeflow.xml, ...
REPORTS_VARIABLE = "TRAINER_TEST_REPORTS"
#: Profile of the tests that start and end clusters themselves.
NO_CLUSTER = "none"

_NO_TESTS = 5
#: What is run for each profile, one after the other. Tests that leave the cluster whole run several at a time, as most
#: of them wait for pods. tests/conftest.py says which take turns: for more than one Airflow this machine has no room.
_AT_ONCE = (str(HERE), "--dist=loadscope", "--max-worker-restart=0")
_RUNS = (
    ("-m", "cluster and not exclusive", "--numprocesses=5", *_AT_ONCE),
    ("-m", "cluster and exclusive", str(HERE)),
)
_SMOKE_RUNS = (("--numprocesses=3", *_AT_ONCE),)


def run_tests(arguments: Sequence[str], *, smoke: bool = False) -> int:
    """Run the cluster tests and return the exit code.

    :param arguments: handed on to pytest. With any of them, a run without a test is no failure as long as another has
        one: they may choose tests.
    :param smoke: whether to run the smoke tests alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        times.touch()
        if os.environ.get(KUBECONFIG_VARIABLE):
            codes = [_pytest(SMOKE if smoke else None, times, [str(HERE), *arguments])]
        elif problems := preflight.missing():
            return _skip(problems)
        else:
            # Two at once would take the cluster away from each other.
            with locked(STATE.with_name("test.lock")):
                codes = _run_smoke(times, arguments) if smoke else _run_profiles(times, arguments)
        print(table(times.read_text()))
    return _first_failure(codes, may_be_empty=bool(arguments))


def table(lines: str) -> str:
    """The closing table.

    :param lines: what the tests have recorded, one JSON object a line.
    """
    rows = [json.loads(line) for line in lines.splitlines()]
    width = max([len(row["kind"]) for row in rows], default=4)
    head = f"{'Kind'.ljust(width)}  Seconds from create to success"
    body = [f"{row['kind'].ljust(width)}  {row['seconds']:7.1f}" for row in rows]
    return "\n".join([head, "-" * len(head), *body])


def _run_profiles(times: Path, arguments: Sequence[str]) -> list[int]:
    cluster = _built()
    codes = [_pytest(NO_CLUSTER, times, [str(HERE), *arguments])]
    try:
        for profile in OF_TESTS:
            codes += _run_profile(cluster, profile, _RUNS, times, arguments)
    finally:
        down()
    return codes


def _run_smoke(times: Path, arguments: Sequence[str]) -> list[int]:
    cluster = _built()
    try:
        return _run_profile(cluster, SMOKE, _SMOKE_RUNS, times, arguments)
    finally:
        down()


def _built() -> Cluster:
    cluster = Cluster()
    with _timed("build"):
        cluster.build()
    return cluster


def _run_profile(
    cluster: Cluster, profile: str, runs: Sequence[Sequence[str]], times: Path, arguments: Sequence[str]
) -> list[int]:
    with _timed(f"up, profile {profile}"):
        cluster.up(PROFILES[profile])
    _delete_leftovers(cluster)
    return [_pytest(profile, times, [*run, *arguments]) for run in runs]


def _first_failure(codes: Sequence[int], *, may_be_empty: bool) -> int:
    """Exit code of several runs of pytest: that of the first that failed.

    :param codes: theirs; negative where a signal killed pytest.
    :param may_be_empty: whether a run without a test is fine as long as another has one.
    """
    ignored = (0, _NO_TESTS) if may_be_empty and set(codes) != {_NO_TESTS} else (0,)
    failed = next((code for code in codes if code not in ignored), 0)
    # As a shell reports it.
    return failed if failed >= 0 else 128 - failed


def _pytest(profile: str | None, times: Path, arguments: Sequence[str]) -> int:
    env = {**os.environ, TIMES_VARIABLE: str(times)}
    if profile is not None:
        env[PROFILE_VARIABLE] = profile
    argv = [sys.executable, "-m", "pytest", "-m", "cluster", *arguments, *_report(profile)]
    code = subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode
    if code < 0:
        print(f"pytest was killed by signal {-code}", flush=True)
    return code


def _report(profile: str | None) -> list[str]:
    """Arguments that let pytest write a report of its own. The file is there, and empty, until pytest has ended."""
    folder = os.environ.get(REPORTS_VARIABLE)
    if not folder:
        return []
    number = len(list(Path(folder).glob("*.xml"))) + 1
    file = Path(folder) / f"{number}-{profile or 'existing'}.xml"
    file.touch()
    return [f"--junitxml={file}"]


def _delete_leftovers(cluster: Cluster) -> None:
    # Of a run that was killed, and of no other: only one run at a time comes here.
    for namespace in cluster.kubectl.list("namespaces"):
        name = namespace["metadata"]["name"]
        if name.startswith("trainer-test-"):
            cluster.kubectl("delete", "namespace", name, "--wait=false")


def _skip(problems: list[str]) -> int:
    line = "=" * 100
    print(line, "THE CLUSTER TESTS DID NOT RUN. This machine lacks:", sep="\n")
    print(*(f"  - {problem}" for problem in problems), sep="\n")
    print(f"To run them on a cluster that you have, name its kubeconfig in {KUBECONFIG_VARIABLE}.", line, sep="\n")
    return 1 if os.environ.get("CI") else 0


@contextmanager
def _timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - started:.0f} s", flush=True)
