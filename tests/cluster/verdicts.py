"""``python -m tests.cluster.verdicts``: the docs' table of verdicts, from what the tests see on a cluster of each
profile.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.cluster.cluster import Cluster, down
from tests.cluster.paths import HERE, ROOT
from tests.cluster.profiles import OF_TESTS, PROFILES
from tests.cluster.runner import PROFILE_VARIABLE

#: Names the file to which tests add the verdicts on failed jobs, one JSON object a line.
VERDICTS_VARIABLE = "TRAINER_TEST_VERDICTS"
#: The tests that record them.
TESTS = HERE / "contract" / "test_verdicts.py"
#: The page.
PAGE = ROOT / "docs" / "reference" / "verdicts.md"
_HEAD = """\
# Verdicts on a cluster

This page shows the verdicts of tasks on failed jobs, and whether a retry can help. `make verdicts` writes it: it makes
jobs fail on a real cluster in each of these ways on each backend, and records the verdicts. {doc}`errors` describes
what each reason means for the next try, and lists the reasons that this method cannot show.

- `JOB`, `NAMESPACE` and `ADDRESS` are placeholders for values that differ in each run.
- In the task's log, the traceback or the last lines follow the verdict.
- `training-operator` has no row for evicted and deleted pods, because its result varies. If the operator first sees
  that the pod is terminating, the job fails as on the other backends. If the operator first sees that the pod is
  missing, it creates another pod, in which the training starts again.
- `it was lost or ended` is either `ended by SIGTERM`, or `lost` if the pod disappeared before the provider saw its end.
- On `mpi-operator`, only the launcher runs the failing command.

"""
#: What separates two cells.
_BORDER = re.compile(r"(?<!\\) ?\| ?")
#: What differs from run to run, and what stands for it.
_STABLE = (
    (re.compile(r"\b[a-z][a-z0-9-]*-[0-9a-f]{10}-\d+\b"), "JOB"),
    # The five letters that Kubernetes adds to a pod's name.
    (re.compile(r"\b(JOB(?:-[a-z0-9]+)*)-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), r"\1"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\btrainer-test-[0-9a-f]{8}\b"), "NAMESPACE"),
    (re.compile(r"\b(\d{1,3}\.){3}\d{1,3}(:\d+)?\b"), "ADDRESS"),
    # A pod that is taken away may be gone before anybody saw how it ended.
    (re.compile(r"it was (?:lost|ended by SIGTERM), (?=EvictionByEvictionAPI|Deleted)"), "it was lost or ended, "),
)


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """The verdicts as a Markdown table: the failures in their order, and backends that say the same in one row.

    :param rows: each with ``failure``, ``backend``, ``message``, ``retry`` and ``way_out``; of two on the same failure
        and backend the later one counts.
    """
    verdicts: dict[str, dict[str, tuple[str, str, str]]] = {}
    for row in rows:
        verdict = (_cell(stable(row["message"])), row["retry"], row["way_out"])
        verdicts.setdefault(row["failure"], {})[row["backend"]] = verdict
    lines = ["| Failure | Backend | Verdict | Retry can help | Way out |", "|---|---|---|---|---|"]
    for failure, by_backend in verdicts.items():
        for verdict in dict.fromkeys(by_backend.values()):
            backends = ", ".join(f"`{name}`" for name, given in by_backend.items() if given == verdict)
            lines.append(f"| {failure} | {backends} | {' | '.join(verdict)} |")
    return "\n".join(lines) + "\n"


def stable(message: str) -> str:
    """A verdict without the names of one run.

    :param message: as a task would report it.
    """
    for pattern, name in _STABLE:
        message = pattern.sub(name, message)
    return message


def difference(row: Mapping[str, str], page: str) -> str | None:
    """What the page says otherwise of a failure on a backend; None where it is current.

    The cluster's own words, at the end of a verdict, are not compared: a kubelet has two for the same error.

    :param row: as of :func:`table`.
    :param page: its text.
    """
    found = None
    for line in page.splitlines():
        cells = _BORDER.split(line)[1:-1]
        if len(cells) == 5 and cells[0] == row["failure"] and f"`{row['backend']}`" in cells[1]:
            found = (_own_words(cells[2]), *cells[3:])
    now = (_own_words(_cell(stable(row["message"]))), row["retry"], row["way_out"])
    return None if found == now else f"the page has {found}, and the cluster {now}: make verdicts"


def _own_words(cell: str) -> str:
    words = ": ".join(cell.strip("`").split(": ")[:2]).removesuffix(".")
    # The tests choose how long a start may take.
    return re.sub(r"\bhad not started \d+ s\b", "had not started", words.replace("ImagePullBackOff", "ErrImagePull"))


def _cell(text: str) -> str:
    """Text as a cell that is not read as Markdown."""
    return "`" + " ".join(text.split()).replace("|", r"\|").replace("`", "'") + "`"


def main() -> int:
    """Run the tests and write the page, unless one of them failed."""
    cluster = Cluster()
    cluster.build()
    code, rows = 0, []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdicts"
        file.touch()
        try:
            for profile in OF_TESTS:
                cluster.up(PROFILES[profile])
                env = {**os.environ, VERDICTS_VARIABLE: str(file), PROFILE_VARIABLE: profile}
                argv = [sys.executable, "-m", "pytest", "-m", "cluster", "-q", str(TESTS), *sys.argv[1:]]
                code = subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode or code
        finally:
            down()
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    if code or not rows:
        print(f"{PAGE.relative_to(ROOT)} is as it was: not every test passed.", file=sys.stderr)
        return code or 1
    PAGE.write_text(_HEAD + table(rows))
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} verdicts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
