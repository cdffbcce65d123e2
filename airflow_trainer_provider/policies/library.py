"""The policies of a folder, one in each YAML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.policies.policy import Policy, Subject
from airflow_trainer_provider.presets.yaml_folder import in_file, read_mapping, yaml_files
from airflow_trainer_provider.spec.validation import problems_of

#: The option that names the folder.
OPTION = "[trainer] policies_folder"


@dataclass(frozen=True)
class PolicyFile:
    """A policy and its file.

    :param name: its file's path in the folder, without the suffix.
    :param file: the file.
    :param policy: the policy in the file.
    """

    name: str
    file: Path
    policy: Policy


def load_policies(folder: Path | None) -> list[PolicyFile]:
    """Read all policies, in the order of their names.

    :param folder: the folder that ``[trainer] policies_folder`` names; None where it names none, so that there are no
        policies.
    :raises SpecError: there is no such folder, or a file is wrong, naming the file and its fields.
    """
    files = {} if folder is None else yaml_files(OPTION, folder)
    return [PolicyFile(name, file, _read(file)) for name, file in files.items()]


def chosen_by_namespace(policies: list[PolicyFile]) -> bool:
    """Whether the choice among policies depends on the namespace."""
    return any(each.policy.applies_to.namespaces for each in policies)


def policies_for(policies: list[PolicyFile], subject: Subject) -> list[PolicyFile]:
    """The policies that apply to a job.

    :param policies: all policies.
    :param subject: the properties of the job by which they are chosen.
    """
    return [each for each in policies if each.policy.applies_to.matches(subject)]


def _read(file: Path) -> Policy:
    given = read_mapping(file)
    try:
        return Policy.model_validate(given)
    except ValidationError as error:
        raise in_file(file, SpecError(problems_of(error, Policy, given))) from None
