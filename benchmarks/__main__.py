"""Run all benchmarks, or those that are named: ``python -m benchmarks [--quick] [NAME...]``.

What was found is written into the docs too, unless it was a quick run.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys

from benchmarks import report
from benchmarks.cluster import running_cluster

#: The modules that measure, in the order in which they run; those of the second list need a cluster.
ALONE = ("import_cost", "render", "overhead", "lines", "progress", "view")
ON_CLUSTER = ("submit", "logs", "airflow_run", "waiting", "soak")


def main(names: list[str], *, quick: bool) -> int:
    """Run them in turn.

    :param names: of the benchmarks; none means all.
    :param quick: only show that those that take long work, and write nothing.
    :return: how many missed a bound.
    """
    wanted = names or [*ALONE, *ON_CLUSTER]
    missed = _run([name for name in wanted if name in ALONE], quick)
    on_cluster = [name for name in wanted if name in ON_CLUSTER]
    if on_cluster:
        with running_cluster():
            missed += _run(on_cluster, quick)
    print(f"\n{'All bounds were held' if not missed else f'{missed} benchmarks MISSED a bound'}.")
    return missed


def _run(names: list[str], quick: bool) -> int:
    missed = 0
    for name in names:
        report.forget()
        measure = importlib.import_module(f"benchmarks.{name}").main
        takes_quick = quick and "quick" in inspect.signature(measure).parameters
        missed += not (measure(quick=True) if takes_quick else measure())
        if not quick:
            report.save(name)
    return missed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*ALONE, *ON_CLUSTER))}")
    parser.add_argument("--quick", action="store_true", help="only show that it works")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {*ALONE, *ON_CLUSTER}
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    given = _arguments()
    sys.exit(min(main(given.names, quick=given.quick), 1))
