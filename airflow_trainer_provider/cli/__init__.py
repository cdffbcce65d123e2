"""The command line, for people who look for what is wrong with a job."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from airflow_trainer_provider.cli.arguments import make_parser
from airflow_trainer_provider.cli.commands import run_command
from airflow_trainer_provider.cli.places import make_place
from airflow_trainer_provider.errors import TrainJobError

#: Exit codes: all went well; the job has failed; it could not be done. A signal's number comes on top of 128.
OK, JOB_FAILED, ERROR, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says.

    :param argv: its words; None takes those of this process.
    :return: the exit code.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    arguments = make_parser().parse_args(argv)
    try:
        place = make_place(arguments)
        return OK if asyncio.run(run_command(place, arguments)) else JOB_FAILED
    except TrainJobError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except BrokenPipeError:
        # Whoever read has read enough. At its end Python would write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("Interrupted; the job, if there is one, goes on.", file=sys.stderr)
        return INTERRUPTED
