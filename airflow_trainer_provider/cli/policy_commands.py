"""``policies export``."""

from __future__ import annotations

import argparse
import sys

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.policies.export.admission import export
from airflow_trainer_provider.policies.library import OPTION, load_policies
from airflow_trainer_provider.spec import parse_field
from airflow_trainer_provider.spec.values.names import Namespace


def run_policies(arguments: argparse.Namespace) -> bool:
    """Run the command that a command line names.

    :return: always True: rules that cannot be exported are no error.
    :raises SpecError: a policy is wrong, or there is no folder of policies.
    """
    folder = load_settings().policies_folder
    if folder is None:
        fix = "Set it in Airflow's configuration."
        raise SpecError([Problem(OPTION, None, "the folder with the policies", fix)])
    namespace = parse_field("--namespace", Namespace, arguments.namespace)
    exported = export(load_policies(folder), namespace, all_jobs=arguments.all_jobs)
    for left in exported.left:
        print(left, file=sys.stderr)
    print(exported.text(), end="")
    return True
