"""``presets list`` and ``presets show``, and presets in a job's file."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "large.yaml").write_text("description: For large models\nframework: jax\nnum_nodes: 2\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(folder))
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))
    return folder


def test_presets_are_listed(capsys):
    assert main(["presets", "list"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "FIELDS", "DESCRIPTION"]
    assert row.split("  ")[0] == "large"
    assert row.endswith("framework, num_nodes  For large models")


def test_a_wrong_preset_is_listed_as_such(folder, capsys):
    (folder / "bad.yaml").write_text("num_nodez: 1\n")

    assert main(["presets", "list"]) == 1
    assert "Did you mean 'num_nodes'?" in capsys.readouterr().out


def test_without_presets_the_list_says_so(monkeypatch, capsys):
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", "")

    assert main(["presets", "list"]) == 0
    assert capsys.readouterr().out == "No presets.\n"


def test_a_preset_is_shown(folder, capsys):
    assert main(["presets", "show", "large"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"# {folder / 'large.yaml'}\n")
    assert yaml.safe_load(text) == {"description": "For large models", "framework": "jax", "num_nodes": 2}


def test_a_preset_is_shown_with_the_instructions_for_its_variables(folder, capsys):
    written = {"env_instructions": {"EPOCHS": "Passes over the data."}, "env": {"EPOCHS": "4"}}
    (folder / "bert.yaml").write_text(yaml.safe_dump(written))

    assert main(["presets", "show", "bert"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == written


def test_an_unknown_preset_is_an_error(capsys):
    assert main(["presets", "show", "larg"]) == 2
    assert "Did you mean 'large'?" in capsys.readouterr().err


def test_a_jobs_file_may_name_presets(tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text("presets: [large]\ncommand: ['true']\n")

    assert main(["render", "--backend", "local", str(file)]) == 0
    assert len(yaml.safe_load(capsys.readouterr().out)["replicas"]) == 2
