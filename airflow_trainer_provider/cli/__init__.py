"""The command line, for users who look for the cause of a job's problem."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

from airflow_trainer_provider.cli.arguments import make_parser
from airflow_trainer_provider.cli.backends import make_backends
from airflow_trainer_provider.cli.commands import run_command
from airflow_trainer_provider.errors import TrainJobError
from airflow_trainer_provider.job.diagnosis.readable import message

#: Exit codes: success; the job has failed, or a preset is wrong; the command could not be carried out; and 128 plus the
#: number of a signal.
OK, FAILED, ERROR, INTERRUPTED = 0, 1, 2, 130


class _Formatter(logging.Formatter):
    """Cleans the messages of libraries, which can quote a cluster's answer, or a URL with a password."""

    def format(self, record: logging.LogRecord) -> str:
        return message(super().format(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the command line names.

    :param argv: its words; None takes those of this process.
    :return: the exit code.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    arguments = make_parser().parse_args(argv)
    try:
        return OK if _run(arguments) else FAILED
    except TrainJobError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except BrokenPipeError:
        # The reader has closed the pipe. Without this, Python would try to write the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("Interrupted; the job, if there is one, goes on.", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> bool:
    """Run a command; False where it failed."""
    if arguments.command == "presets":
        from airflow_trainer_provider.cli.preset_commands import run_presets

        return run_presets(arguments)
    if arguments.command == "policies":
        from airflow_trainer_provider.cli.policy_commands import run_policies

        return run_policies(arguments)
    return asyncio.run(run_command(make_backends(arguments), arguments))
