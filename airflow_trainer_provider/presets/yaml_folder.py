"""Reads the YAML files of a folder that Airflow's configuration names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec.parse import given_fields
from airflow_trainer_provider.spec.values.yaml_text import read_documents

_ENDS = (".yaml", ".yml")
_CORRECT = "Correct Airflow's configuration."


def yaml_files(option: str, folder: Path) -> dict[str, Path]:
    """The YAML files of a folder and its subfolders: name -> file. A name is the path in the folder without its suffix.

    Hidden files and folders are skipped, and with them the copies that a mounted ConfigMap keeps in hidden folders.

    :param option: the option that names the folder, for the error.
    :param folder: the folder.
    :raises SpecError: the folder does not exist, or two files have the same name.
    """
    if not folder.is_dir():
        raise SpecError([Problem(option, str(folder), "a folder that this process can read", _CORRECT)])
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.suffix not in _ENDS or not file.is_file() or any(part.startswith(".") for part in parts):
            continue
        name = file.relative_to(folder).with_suffix("").as_posix()
        if name in found:
            raise SpecError([Problem(option, name, "one file for each name", f"Rename {found[name]} or {file}.")])
        found[name] = file
    return found


def read_mapping(file: Path) -> dict[str, Any]:
    """The single mapping in a file, as plain values. An empty file is an empty mapping.

    :param file: the file's path.
    :raises SpecError: the file cannot be read, or has other content. The error quotes no values, as they may be secret.
    """
    allowed = "a file with one YAML mapping, whose keys are text"
    try:
        documents = read_documents(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise SpecError([Problem(str(file), "the file", allowed, f"Correct it: {why}.")]) from None
    found = documents[0] if len(documents) == 1 else documents or {}
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise SpecError([Problem(str(file), type(found).__name__, allowed, "Write the fields as one mapping.")])
    try:
        return given_fields(found)
    except SpecError as error:
        raise in_file(file, error) from None


def in_file(file: Path, error: SpecError) -> SpecError:
    """The same error with the file's path added to each field.

    :param file: the file's path.
    :param error: an error about fields of the file.
    """
    return SpecError([replace(each, field=f"{file}: {each.field}") for each in error.problems])
