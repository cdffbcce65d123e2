"""``presets list`` and ``presets show``."""

from __future__ import annotations

import argparse

import yaml

from airflow_trainer_provider.cli import text
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.hooks.settings import load_settings
from airflow_trainer_provider.presets.library import find_presets, load_preset, load_presets


def run_presets(arguments: argparse.Namespace) -> bool:
    """Run the command that a command line names.

    :return: False where a preset is wrong.
    :raises SpecError: there is no such preset, or no folder of presets.
    """
    folder = load_settings().presets_folder
    if arguments.action == "show":
        (preset,) = load_presets(folder, [arguments.name])
        print(f"# {preset.file}")
        described = {"description": preset.description, "env_instructions": dict(preset.env_instructions)}
        given = {name: value for name, value in described.items() if value}
        print(yaml.safe_dump({**given, **preset.fields}, sort_keys=False, width=120), end="")
        return True
    rows, good = [], True
    for name, file in find_presets(folder).items():
        try:
            preset = load_preset(name, file)
            rows.append((name, ", ".join(preset.fields), preset.description))
        except SpecError as error:
            good = False
            rows.append((name, "wrong", "; ".join(map(str, error.problems))))
    print(text.presets(rows))
    return good
