"""Start, end and test on the cluster: ``python -m tests.cluster up|down|status|build|built|smoke|test``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from tests.cluster.node import NodeError
from tests.cluster.profiles import DEFAULT, PROFILES
from tests.cluster.shell import CommandFailed

#: Exit code where the cluster is not built on this machine (tools/ci knows it).
NOT_BUILT = 3


def main() -> int:
    """Run one command of the harness."""
    options, rest = _parser().parse_known_args()
    if rest and options.command not in ("smoke", "test"):
        _parser().error(f"unknown arguments: {' '.join(rest)}")
    # CI ends a stage by it: the cluster ends as well.
    signal.signal(signal.SIGTERM, _stop)
    started = time.monotonic()
    try:
        code = _run(options, rest)
    except (CommandFailed, NodeError, OSError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    if options.command in ("build", "up"):
        print(f"{options.command}: {time.monotonic() - started:.0f} s")
    return code


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    from tests.cluster import cluster, runner

    if options.command in ("smoke", "test"):
        return runner.run_tests(rest, smoke=options.command == "smoke")
    if options.command == "built":
        return _built()
    if options.command in ("build", "up"):
        return _make(options)
    if options.command == "down":
        cluster.down()
    else:
        print(cluster.status())
    return 0


def _make(options: argparse.Namespace) -> int:
    """Build the cluster, or have it running."""
    from tests.cluster import cluster, preflight

    problems = preflight.missing()
    if problems:
        print("This machine lacks:", *problems, sep="\n  - ", file=sys.stderr)
        return 1
    if options.command == "build":
        cluster.Cluster().build()
        return 0
    cluster.Cluster().up(PROFILES[options.profile])
    print(f"export KUBECONFIG={cluster.KUBECONFIG}")
    return 0


def _built() -> int:
    """Say in one line why the smoke tests cannot run here, if they cannot.

    :return: :data:`NOT_BUILT` where the cluster was never built, 1 where this machine has a built one and lacks
        something else.
    """
    from tests.cluster import cluster, images, preflight

    problems = preflight.missing()
    if problems and images.any_cached():
        print(f"a cluster is built on this machine, and it lacks {problems[0]}")
        return 1
    missing = problems or cluster.Cluster().missing()
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        print(f"no cluster is built on this machine, which lacks {missing[0]}{more}")
    return NOT_BUILT if missing else 0


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start the cluster, building what is missing")
    up.add_argument(
        "--profile",
        default=DEFAULT,
        # The Makefile says "default" when no profile was asked for.
        type=lambda name: DEFAULT if name == "default" else name,
        choices=sorted(PROFILES),
        help=f"which controllers (default: {DEFAULT})",
    )
    commands.add_parser("down", help="end the cluster")
    commands.add_parser("status", help="show what runs")
    commands.add_parser("build", help="build everything into the cache; only this needs a network")
    commands.add_parser("built", help=f"exit with {NOT_BUILT}, and say why, where the cluster is not built")
    commands.add_parser("smoke", help="run the smoke tests; further arguments go to pytest")
    commands.add_parser("test", help="run the cluster tests; further arguments go to pytest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
