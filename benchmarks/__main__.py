"""Run all benchmarks, or those that are named: ``python -m benchmarks [import_cost] [overhead]``."""

from __future__ import annotations

import sys

from benchmarks import import_cost, overhead

BENCHMARKS = {"import_cost": import_cost.main, "overhead": overhead.main}


def main(names: list[str]) -> int:
    """Run them in turn.

    :param names: of the benchmarks; none means all.
    :return: how many missed their bound.
    """
    return sum(not BENCHMARKS[name]() for name in names or BENCHMARKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
