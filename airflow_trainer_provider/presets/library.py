"""The presets of a folder: each YAML file is a part of a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.presets.yaml_folder import in_file, read_mapping, yaml_files
from airflow_trainer_provider.spec import check_part, parse_field
from airflow_trainer_provider.spec.validation import choice
from airflow_trainer_provider.spec.values.base import all_wrong, wrong
from airflow_trainer_provider.spec.values.variables import variable_problem
from airflow_trainer_provider.spec.values.words import Text, rendered_hint

#: The option that names the folder.
OPTION = "[trainer] presets_folder"
#: The keys of a preset's file that are not fields of a spec.
_DESCRIPTION, _INSTRUCTIONS = "description", "env_instructions"
_MOST_PRESETS = 16


@dataclass(frozen=True)
class Preset:
    """A named part of a spec.

    :param name: the path of its file in the folder, without the suffix.
    :param file: its file.
    :param fields: fields of :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`, as written in the file.
    :param description: the purpose of the preset; empty if the file has none.
    :param env_instructions: name of an environment variable -> how to choose its value, for a form.
    """

    name: str
    file: Path
    fields: dict[str, Any]
    description: str = ""
    env_instructions: Mapping[str, str] = field(default_factory=dict)


def _names(value: Any) -> Any:
    if isinstance(value, str):
        hint = rendered_hint(value)
        if hint:
            raise wrong("a list of names, or one text with commas between them", hint)
        return [name for name in map(str.strip, value.split(",")) if name]
    return value


def _of_variables(value: Any) -> Any:
    problems = [problem for name in value if (problem := variable_problem(name))] if isinstance(value, Mapping) else []
    if problems:
        raise all_wrong(problems)
    return value


_Instructions = Annotated[dict[str, Text], BeforeValidator(_of_variables)]
_Names = Annotated[tuple[Text, ...], Field(max_length=_MOST_PRESETS), BeforeValidator(_names)]


def preset_names(value: Any) -> tuple[str, ...]:
    """The names in an operator's ``presets``.

    :param value: a list of names, a name, or a text with names separated by commas, as a template renders it.
    :raises SpecError: the value is of another type.
    """
    return tuple(parse_field("presets", _Names, value) or ())


def find_presets(folder: Path | None) -> dict[str, Path]:
    """All presets: name -> file.

    :param folder: the folder that ``[trainer] presets_folder`` names; None if it is not set: there are no presets then.
    :raises SpecError: the folder does not exist.
    """
    return {} if folder is None else yaml_files(OPTION, folder)


def load_presets(folder: Path | None, names: Sequence[str]) -> list[Preset]:
    """Read presets.

    :param folder: the folder that ``[trainer] presets_folder`` names; None if it is not set.
    :param names: the names of the presets.
    :return: the presets in the order of the names.
    :raises SpecError: a preset does not exist (the error names a similar one), or a file is invalid (the error names
        the file and its fields).
    """
    if names and folder is None:
        fix = f"Drop presets, or set {OPTION} in Airflow's configuration."
        raise SpecError([Problem("presets", ", ".join(names), f"no value: {OPTION} names no folder", fix)])
    files = find_presets(folder)
    unknown = [name for name in names if name not in files]
    if unknown:
        allowed = [*files] or ["no value: there are none"]
        otherwise = f"Use one of these, or add a file to {folder}."
        problems = [choice("presets", name, allowed, otherwise) for name in unknown]
        raise SpecError([_with_folder(problem, folder) for problem in problems])
    return [load_preset(name, files[name]) for name in names]


def load_preset(name: str, file: Path) -> Preset:
    """Read one preset, and validate each of its fields.

    :param name: the preset's name.
    :param file: the preset's file.
    :raises SpecError: the file is invalid; the error names the file and its fields.
    """
    fields = read_mapping(file)
    try:
        description = parse_field(_DESCRIPTION, Text, fields.pop(_DESCRIPTION, None))
        instructions = parse_field(_INSTRUCTIONS, _Instructions, fields.pop(_INSTRUCTIONS, None))
        check_part(fields)
        if "framework" in fields:
            get_framework(fields["framework"])
    except SpecError as error:
        raise in_file(file, error) from None
    return Preset(name, file, fields, description or "", instructions or {})


def _with_folder(problem: Problem, folder: Path | None) -> Problem:
    return Problem(problem.field, problem.value, f"{problem.allowed} (the files in {folder})", problem.fix)
