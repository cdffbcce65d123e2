"""``python -m tools.airflow_runner up | down | demo``."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from tools.airflow_runner import checkout
from tools.airflow_runner.api import AirflowApi
from tools.airflow_runner.code import CHECKOUT
from tools.airflow_runner.demo import run_demo

#: How long Airflow runs after a demo, so that users can look at the run in its UI.
MINUTES_AFTER_DEMO = 15


def up() -> int:
    """Start an Airflow that keeps running, unless one is up already."""
    url = checkout.up()
    print(f"Airflow is up: {url}   (no password; its files are in {checkout.HOME.relative_to(CHECKOUT)}/)")
    print("make down ends it.")
    return 0


def down() -> int:
    """End the Airflow that :func:`up` or :func:`demo` started, in any shell."""
    print("Airflow is down." if checkout.down() else "Airflow was not up.")
    return 0


def demo() -> int:
    """Run the retraining DAG in the Airflow that is up, or else in one that ends some time after the demo."""
    url, ends_itself = checkout.up_for(MINUTES_AFTER_DEMO * 60)
    status = run_demo(AirflowApi(url))
    print(f"See the run in Airflow's UI: {url}   (no password)")
    if ends_itself:
        print(f"Airflow stays up for {MINUTES_AFTER_DEMO} minutes; make up keeps it, make down ends it now.")
    return status


COMMANDS = {"up": up, "down": down, "demo": demo}


def main() -> int:
    """Run the command that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tools.airflow_runner", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    command = parser.parse_args().command
    # SIGTERM raises an exception as Ctrl-C does, so that an Airflow that is still starting is stopped.
    signal.signal(signal.SIGTERM, _exit)
    try:
        return COMMANDS[command]()
    except KeyboardInterrupt:
        print("Interrupted. make down ends the Airflow that is up.", file=sys.stderr)
        return 130


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
