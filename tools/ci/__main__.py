"""``python -m tools.ci gate``, or ``python -m tools.ci all [--list | STAGE ...]``."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import FrameType

from tools.ci import leftovers, machine, processes, stages
from tools.ci.run import Run
from tools.ci.stages import Stage
from tools.ci.table import Result, make_table

#: Of the last run in this checkout: the reports of its tests, and its closing table as table.json.
REPORTS = Path(".ci/reports").absolute()
#: Seconds after which the gate begins to end what runs. That, and what comes before the first stage, take up to one
#: minute more.
_GATE = 24 * 60
# Unix sockets in the temporary folder have paths of at most 107 characters.
_MAX_TEMPORARY = 30


def main() -> int:
    """Run what the arguments name, and print the closing table."""
    kind, chosen = _arguments(sys.argv[1:])
    temporary = _temporary()
    with _alone():
        if problems := machine.missing(Path.cwd(), temporary):
            print("This machine cannot run CI:", *problems, sep="\n  - ", file=sys.stderr)
            # What an earlier run has left there is not this one's.
            shutil.rmtree(REPORTS, ignore_errors=True)
            return 1
        print(machine.found(Path.cwd(), temporary))
        if not chosen:
            for line in leftovers.end_leftovers(temporary):
                print(line)
        for other in leftovers.others():
            print(f"runs beside: {other}")
        shutil.rmtree(REPORTS, ignore_errors=True)
        REPORTS.mkdir(parents=True)
        name = processes.new_run()
        with _folder(temporary, name) as folder:
            run = Run(name, folder, REPORTS, _GATE if kind == "gate" else None)
            return 0 if _run(run, kind, chosen) else 1


def _run(run: Run, kind: str, chosen: Sequence[str]) -> bool:
    """Run the stages and print the table; whether all is well."""
    before, cluster, beside = (stages.gate(), [], []) if kind == "gate" else _whole(chosen)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        run.run(before)
        _run_beside(run, cluster, beside)
    finally:
        # The rest takes less than a minute, and leaves nothing.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        run.end()
        good = _close(run, [*before, *cluster, *beside])
    return good


def _whole(chosen: Sequence[str]) -> list[list[Stage]]:
    found = (stages.before_cluster(), stages.cluster(), stages.beside_cluster())
    return [[stage for stage in part if not chosen or stage.name in chosen] for part in found]


def _run_beside(run: Run, cluster: list[Stage], beside: list[Stage]) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        thread = Thread(target=run.run, args=(beside, output), daemon=True)
        thread.start()
        try:
            run.run(cluster)
            thread.join()
        finally:
            output.seek(0)
            print(output.read())


def _close(run: Run, planned: Sequence[Stage]) -> bool:
    """Print the table of the stages that were planned, and leave it as JSON; whether all is well."""
    done = {result.stage for result in run.results}
    missing = [Result(stage.name, "FAILED: not run to its end") for stage in planned if stage.name not in done]
    table = make_table([*run.results, *missing])
    print("", *table.lines(), sep="\n", flush=True)
    (REPORTS / "table.json").write_text(json.dumps({"commit": _commit(), **table.as_json()}, indent=1))
    return table.good


def _arguments(words: Sequence[str]) -> tuple[str, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tools.ci", description="Run the stages of CI.")
    parser.add_argument("kind", choices=("gate", "all"), help="what decides whether a change lands, or every stage")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="of the whole run: these alone")
    parser.add_argument("--list", action="store_true", help="the names of the stages, and nothing else")
    options = parser.parse_args(words)
    whole = [*stages.before_cluster(), *stages.cluster(), *stages.beside_cluster()]
    names = [stage.name for stage in (stages.gate() if options.kind == "gate" else whole)]
    if options.list:
        print(*names, sep="\n")
        sys.exit()
    if options.stages and options.kind == "gate":
        parser.error("the gate is one thing: bash .ci/all STAGE ... runs stages by themselves")
    if unknown := [name for name in options.stages if name not in names]:
        parser.error(f'no stage "{unknown[0]}"; there are: {", ".join(names)}')
    return options.kind, options.stages


def _temporary() -> Path:
    folder = Path(tempfile.gettempdir())
    return folder if len(str(folder)) <= _MAX_TEMPORARY or not os.access("/tmp", os.W_OK) else Path("/tmp")


@contextmanager
def _alone() -> Iterator[None]:
    """Refuse to run where another run goes on in this checkout: both would write the same reports."""
    REPORTS.parent.mkdir(exist_ok=True)
    with REPORTS.with_name("lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("CI runs in this checkout already: wait for it, or end it.")
        yield


@contextmanager
def _folder(temporary: Path, name: str) -> Iterator[Path]:
    """A temporary folder for all stages; by its name the next run finds it where this one is killed."""
    folder = temporary / f"{leftovers.FOLDER_PREFIX}{name.rpartition('/')[2]}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _commit() -> str:
    """The commit of this checkout, or nothing where it is a copy."""
    if not shutil.which("git"):
        return ""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], check=False, capture_output=True, text=True)
    return asked.stdout.strip()


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
