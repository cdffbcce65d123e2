"""The arguments of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.hooks.backends import AUTO, check_backend

_DESCRIPTION = """Look at training jobs, and manage them, without a DAG.

Exit codes: 0 success; 1 the job that was waited for has failed; 2 the command could not be carried out."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_trainer_provider",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    where = _where()

    def add(name: str, help_: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help_, description=help_, parents=[where, *parents])

    job, output, file = _job(), _output(), _file()
    add("render", "Show the objects that a file would become. Creates nothing.", file)
    submit = add("submit", "Start the job of a file, and print its handle. It stays until it is deleted.", file)
    submit.add_argument("--wait", action="store_true", help="follow it with its logs, and exit with 1 if it fails")
    add("list", "List the jobs of a namespace, including those created outside Airflow.", output)
    add("describe", "Show a job's status, and why it waits or has failed.", job, output)
    logs = add("logs", "Print a job's log lines.", job)
    logs.add_argument("--replica", metavar="R", help="only the lines of this replica, e.g. worker-1")
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log until the job has ended")
    logs.add_argument("--tail", type=_count, metavar="N", help="only the last N lines of each container")
    logs.add_argument("-p", "--previous", action="store_true", help="the log from before each container's last restart")
    suspend = add("suspend", "Stop a job's pods and keep the job.", job)
    resume = add("resume", "Resume a suspended job, with new pods.", job)
    resume.add_argument("--wait", action="store_true", help="wait until all replicas run, or the job has ended")
    delete = add("delete", "Delete a job with all its objects.", job)
    for each in (suspend, delete):
        each.add_argument("--no-wait", action="store_true", help="do not wait until the pods are gone")
    _add_presets(commands)
    _add_policies(commands)
    return parser


def _add_presets(commands: Any) -> None:
    help_ = "Presets: named parts of a job in the folder that [trainer] presets_folder names."
    actions = commands.add_parser("presets", help=help_, description=help_).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    listing = "List the presets; exits with 1 where one is wrong."
    actions.add_parser("list", help=listing, description=listing)
    show = actions.add_parser("show", help="Show a preset.", description="Show a preset.")
    show.add_argument("name", metavar="NAME", help="the preset's name")


def _add_policies(commands: Any) -> None:
    help_ = "Policies: rules for jobs in the folder that [trainer] policies_folder names."
    actions = commands.add_parser("policies", help=help_, description=help_).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    text = "Write the policies as ValidatingAdmissionPolicies, which the cluster enforces for every client."
    export = actions.add_parser("export", help=text, description=text)
    export.add_argument("-n", "--namespace", help="only for jobs in this namespace; default: for all")
    export.add_argument(
        "--all-jobs",
        action="store_true",
        help="apply the rules for batch/v1 Jobs to all Jobs, and not only to those of this provider",
    )


def _where() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group(
        "where",
        "By default the service account of the pod that this runs in; outside of a cluster, $KUBECONFIG or "
        "~/.kube/config.",
    )
    group.add_argument("--conn-id", metavar="ID", help="a connection of this Airflow, of type kubernetes")
    group.add_argument("--kubeconfig", metavar="FILE", help="a kubeconfig, in place of a connection of Airflow")
    group.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    group.add_argument("-n", "--namespace", help="default: the connection's, then [trainer] namespace, or 'default'")
    group.add_argument(
        "--backend",
        type=_backend,
        metavar="NAME",
        default=AUTO,
        help="only jobs of this backend; the backend of a new job. local: this machine, as Airflow is configured",
    )
    return parser


def _job() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("name", metavar="NAME", help="the job's name")
    parser.add_argument("--kind", help="its kind, e.g. PyTorchJob, where jobs of several kinds have that name")
    return parser


def _output() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def _file() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="YAML or JSON: the fields of a job as an operator takes them, or a Kubernetes manifest of one of the "
        "kinds; - for standard input",
    )
    return parser


def _backend(text: str) -> str:
    try:
        check_backend("--backend", text)
    except SpecError as error:
        raise argparse.ArgumentTypeError(str(error.problems[0])) from None
    return text


def _count(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return count
