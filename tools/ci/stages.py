"""The stages of the gate and of the whole run.

The limits are about four times what a stage takes on two cores, and more for those that yield to the cluster. What the
machine lacks for a stage makes it fail; to leave a stage out it has to be named, in ``CI_WITHOUT``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.ci.leftovers import cluster_is_left


@dataclass(frozen=True)
class Stage:
    """One command of a run.

    :param name: of the stage.
    :param minutes: after which it is ended.
    :param command: what it runs.
    :param tests: folders with tests of which each file has to be collected; empty: it runs no tests.
    :param part: whether the command leaves some of these files out.
    :param environment: variables for it.
    :param lacks: what the machine lacks for it.
    :param spare: seconds of the gate's time with less of which it is left to the whole run; 0: never.
    :param asks: a command that says whether the gate leaves the stage to the whole run: it exits with :data:`LEAVE`
        then, and prints why. Any other failure of it is one of the stage.
    """

    name: str
    minutes: int
    command: tuple[str, ...]
    tests: tuple[str, ...] = ()
    part: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    lacks: str = ""
    spare: int = 0
    asks: tuple[str, ...] = ()


_LIGHT = ("tests/airflow", "tests/contract", "tests/local", "tests/unit")
# On the other Pythons the tests of our own tools are left out. There, and in the gate, a part of the random values for
# each field will do.
_PYTHONS = ("3.12", "3.13")
_OF_PYTHONS = ("tests/unit", "tests/contract")
_NOT_OUR_TOOLS = "".join(
    f" --ignore=tests/unit/{name}" for name in ("ci", "cluster_harness", "test_contracts.py", "test_mutants.py")
)
_ALL_ON_AIRFLOW = "ARGS=tests/airflow -m 'not heavy'"
_FEWER_VALUES = {"FUZZ_VALUES": "100"}
_CLUSTER = (".venv/bin/python", "-m", "tests.cluster")
#: The environment variable that says what the tests of a stage have to run on (tests/runs_on.py checks it).
RUNS_ON = "TRAINER_TEST_RUNS_ON"
#: Exit code by which what a stage asks leaves it to the whole run.
LEAVE = 3
_LOWEST_PYTHON, _LOWEST = "3.10", Path("constraints/lowest.txt")


def gate() -> list[Stage]:
    """What decides whether a change lands, one after the other."""
    return [
        _make("venv", 5, "venv"),
        *_end_cluster(),
        _make("lint", 3, "lint"),
        _make("types", 5, "typecheck"),
        _make("contracts", 3, "contracts"),
        _make("light", 23, "test", tests=_LIGHT, environment=_FEWER_VALUES),
        _make("docs", 5, "docs", spare=240),
        _make("newcomer", 8, "test-newcomer", "DEMOS=1", spare=240),
        # Building the cluster takes longer than the gate has.
        _smoke(8, spare=480, asks=(*_CLUSTER, "built")),
    ]


def _end_cluster() -> list[Stage]:
    """A cluster that an earlier run of any checkout has left takes both cores."""
    if not cluster_is_left():
        return []
    return [Stage("cluster-down", 5, (*_CLUSTER, "down"))]


def before_cluster() -> list[Stage]:
    """The first stages of the whole run, one after the other: those with an Airflow starve beside others."""
    # What the gate has no time for is in all of these three.
    slow = _make("slow", 40, "test-slow", tests=_LIGHT)
    postgresql = _make("postgresql", 40, "test-postgresql", tests=("tests/airflow",))
    lowest = _make("airflow-lowest", 30, "test-airflow-lowest", _ALL_ON_AIRFLOW, tests=("tests/airflow",))
    lowest_browser = _make("browser-lowest", 10, "test-browser-lowest", tests=("tests/browser/training_tab",))
    return [
        *(replace(stage, spare=0, environment={}) for stage in gate() if stage.name not in ("newcomer", "smoke")),
        _make("newcomer", 8, "test-newcomer"),
        slow,
        _with_package("postgresql", "pg_ctlcluster", _on(postgresql, database="postgresql")),
        _lowest(lowest),
        _with_package("chromium", "chromium", _make("browser", 15, "test-browser", tests=("tests/browser",))),
        _with_package("chromium", "chromium", _lowest(lowest_browser)),
    ]


def cluster() -> list[Stage]:
    """The stages that wait most of their time, one after the other."""
    lacks = "" if _is_root_on_debian() else "the test cluster needs root and Debian's packages"
    stages = (
        _make("cluster-build", 90, "cluster-build"),
        _smoke(20),
        _make("cluster", 150, "test-cluster", tests=("tests/cluster",)),
    )
    return [replace(stage, lacks=lacks) for stage in stages]


def _smoke(minutes: int, **values: object) -> Stage:
    return _make("smoke", minutes, "test-smoke", tests=("tests/cluster",), part=True, **values)


def beside_cluster() -> list[Stage]:
    """What runs while the tests on a cluster wait, and yields to them.

    What has trainings of its own is first, while the cluster is only started and ended.
    """
    arguments = f"ARGS={' '.join(_OF_PYTHONS)}{_NOT_OUR_TOOLS}"
    stages = [
        _make("heavy", 25, "test-heavy", tests=_LIGHT),
        _make("storms", 60, "test-storms", tests=("tests/unit/cluster/logs",), part=True),
        _part("loops", 90, "test-loops", arguments),
        _lowest(_part("lowest-unit", 60, "test-airflow-lowest", arguments)),
    ]
    for version in _PYTHONS:
        path = _find_python(version)
        stage = _part(f"python{version}", 60, "test-python", arguments, f"PYTHON={path}")
        stages.append(_on(replace(stage, lacks="" if path else "it is not on this machine"), python=version))
    return [replace(stage, command=("nice", "-n", "15", *stage.command)) for stage in stages]


def _make(name: str, minutes: int, target: str, *more: str, **values: object) -> Stage:
    return Stage(name, minutes, ("make", target, *more), **values)  # type: ignore[arg-type]


def _part(name: str, minutes: int, target: str, *more: str) -> Stage:
    """A stage of what each Python runs."""
    return _make(name, minutes, target, *more, tests=_OF_PYTHONS, part=True, environment=_FEWER_VALUES)


def _on(stage: Stage, **runs_on: str) -> Stage:
    wanted = " ".join(f"{name}={value}" for name, value in runs_on.items())
    return replace(stage, environment={**stage.environment, RUNS_ON: wanted})


def _lowest(stage: Stage) -> Stage:
    path = _find_python(_LOWEST_PYTHON)
    lacks = stage.lacks or ("" if path else f"python{_LOWEST_PYTHON} is not on this machine")
    (airflow,) = re.findall(r"^apache-airflow==(\S+)", _LOWEST.read_text(), re.MULTILINE)
    stage = replace(stage, command=(*stage.command, f"PYTHON={path}"), lacks=lacks)
    return _on(stage, python=_LOWEST_PYTHON, airflow=airflow)


def _with_package(package: str, program: str, stage: Stage) -> Stage:
    if shutil.which(program) or _is_root_on_debian():
        return replace(stage, command=("tools/debian_package.sh", package, program, *stage.command))
    return replace(stage, lacks=f"no {package}, and no right to install it")


def _find_python(version: str) -> str:
    """Its path, or nothing; pyenv has some that it does not show."""
    found = [path for path in (shutil.which(f"python{version}"), *_of_pyenv(version)) if path and _works(path)]
    return found[0] if found else ""


def _of_pyenv(version: str) -> list[str]:
    if not shutil.which("pyenv"):
        return []
    root = subprocess.run(["pyenv", "root"], check=False, capture_output=True, text=True).stdout.strip()
    return sorted(map(str, Path(root, "versions").glob(f"{version}.*/bin/python{version}")), reverse=True)


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


def _is_root_on_debian() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None
