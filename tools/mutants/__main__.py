"""``python -m tools.mutants``: put each fault of the lists into the code, and run the tests that have to notice it."""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tools.mutants.mutation import ListError, Mutation, read_lists
from tools.mutants.worker import FAILED, PASSED, Outcome, Worker

CHECKOUT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent / "lists"
#: How many times longer tests that hung may take when they run again, with nothing else running.
_LONGER = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    :param arguments: of the command line; None for those of this process.
    :return: the exit status: 0 when the tests noticed each mutation.
    """
    options = _options(arguments)
    try:
        mutations = [each for each in read_lists(options.lists, options.checkout) if options.k in str(each)]
    except ListError as error:
        print(error, file=sys.stderr)
        return 1
    if not mutations:
        print(f"no mutation has {options.k!r} in its name or its file", file=sys.stderr)
        return 1
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        workers = [Worker(options.checkout, Path(folder, str(each))) for each in range(options.workers)]
        if not _pass_unbroken(workers, mutations, options.limit):
            return 1
        verdicts = _try_all(workers, mutations, options.limit)
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts)))
    print(f"{len(verdicts)} mutations: {counts}; {time.monotonic() - begin:.0f} s")
    return 0 if {"killed", "timed out"}.issuperset(verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("-k", default="", metavar="TEXT", help="only mutations with this text in their name or file")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many run at once")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="of one test")
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder of the lists")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help="folder of the code")
    return parser.parse_args(arguments)


def _pass_unbroken(workers: Sequence[Worker], mutations: Sequence[Mutation], limit: float) -> bool:
    """Return whether the tests pass without a mutation: a test that fails anyway would seem to notice each one."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    shares = [share for at in range(len(workers)) if (share := tests[at :: len(workers)])]
    with ThreadPoolExecutor(len(workers)) as pool:
        outcomes = list(pool.map(lambda worker, share: worker.run(share, limit), workers, shares))
    wrong = [outcome for outcome in outcomes if outcome.status != PASSED]
    for outcome in wrong:
        print(f"{outcome.output}\nThe tests have to pass before anything is broken.", file=sys.stderr)
    return not wrong


def _try_all(workers: Sequence[Worker], mutations: Sequence[Mutation], limit: float) -> list[str]:
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def try_one(mutation: Mutation) -> Outcome:
        worker = idle.get()
        try:
            return worker.try_mutation(mutation, limit)
        finally:
            idle.put(worker)

    verdicts, hung = [], []
    pool = ThreadPoolExecutor(len(workers))
    try:
        tried = {pool.submit(try_one, mutation): mutation for mutation in mutations}
        for future in as_completed(tried):
            if future.result().hung:
                hung.append(tried[future])
            else:
                verdicts.append(_describe(tried[future], future.result()))
    finally:
        pool.shutdown(cancel_futures=True)
    # Tests that hung run again: the machine may have been busy, and then no test has noticed the mutation.
    return verdicts + [_describe(each, workers[0].try_mutation(each, _LONGER * limit)) for each in hung]


def _describe(mutation: Mutation, outcome: Outcome) -> str:
    if outcome.hung:
        verdict, by = "timed out", f"{outcome.failed_test or 'a test'} hangs"
    elif outcome.status == PASSED:
        verdict, by = "SURVIVED", f"none of {' '.join(mutation.tests)} fails"
    elif outcome.status == FAILED:
        verdict, by = "killed", f"{outcome.failed_test} fails"
    else:
        verdict, by = "NOT TRIED", f"pytest could not run the tests:\n{outcome.output}"
    print(f"{verdict:<9}  {outcome.seconds:5.1f} s  {mutation}\n{'':20}{by}", flush=True)
    return verdict


if __name__ == "__main__":
    # SIGTERM raises an exception as Ctrl-C does, so that the copies are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
