"""Presets are read from a folder and validated; what is wrong names the file and the field."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.presets.library import find_presets, load_presets, preset_names
from airflow_trainer_provider.presets.yaml_folder import read_mapping


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "compute").mkdir()
    (tmp_path / "compute" / "large.yaml").write_text("description: 8 GPUs\nresources_per_node: {cpu: 2, gpu: 8}\n")
    (tmp_path / "bert.yml").write_text("image: bert:1\nelastic: {max_restarts: 3}\nnum_proc_per_node: null\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "copy.yaml").write_text("image: x")
    return tmp_path


def problems(folder, *names):
    with pytest.raises(SpecError) as caught:
        load_presets(folder, names)
    return caught.value.problems


def test_the_presets_of_a_folder_are_found(folder):
    assert [*find_presets(folder)] == ["bert", "compute/large", "empty"]
    assert find_presets(None) == {}


def test_presets_are_read_in_the_order_of_the_names(folder):
    large, bert, empty = load_presets(folder, ["compute/large", "bert", "empty"])

    assert (large.name, large.description) == ("compute/large", "8 GPUs")
    assert large.fields == {"resources_per_node": {"cpu": 2, "gpu": 8}}
    # A part need not be whole, and a null is no value.
    assert bert.fields == {"image": "bert:1", "elastic": {"max_restarts": 3}}
    assert empty.fields == {}


def test_instructions_for_variables_are_no_fields_of_the_job(folder):
    (folder / "form.yaml").write_text("env_instructions: {EPOCHS: Passes over the data.}\nenv: {EPOCHS: 4}\n")

    (form,) = load_presets(folder, ["form"])

    assert form.env_instructions == {"EPOCHS": "Passes over the data."}
    assert form.fields == {"env": {"EPOCHS": 4}}


def test_an_unknown_preset_names_the_nearest_and_the_folder(folder):
    far, near = problems(folder, "bert", "nothing", "compute/larg")

    assert (far.field, far.value) == ("presets", "nothing")
    assert far.allowed == f"bert, compute/large, empty (the files in {folder})"
    assert far.fix == f"Use one of these, or add a file to {folder}."
    assert near.fix == "Did you mean 'compute/large'?"


def test_without_a_folder_there_are_no_presets():
    (problem,) = problems(None, "large")

    assert (problem.field, problem.value) == ("presets", "large")
    assert "[trainer] presets_folder" in problem.fix
    assert load_presets(None, []) == []


def test_a_folder_that_is_not_there_is_an_error_of_the_configuration(tmp_path):
    (problem,) = problems(tmp_path / "none", "large")

    assert problem.field == "[trainer] presets_folder"


@pytest.mark.parametrize(
    ("text", "field", "part"),
    [
        ("imag: x", "imag", "Did you mean 'image'?"),
        ("num_nodes: many", "num_nodes", "a whole number"),
        ("resources_per_node: {gpus: 8}", "resources_per_node.gpus", "Did you mean 'gpu'?"),
        ("env: {TRAINER_X: 1}", "env", "TRAINER_"),
        ("framework: pytroch", "framework", "Did you mean 'pytorch'?"),
        ("num_nodes: 1\nnum_workers: 1", "num_workers", "not both"),
        ("description: [a]", "description", "text"),
        ("env_instructions: text", "env_instructions", "allowed: a mapping"),
        ("env_instructions: {EPOCHS: [a]}", "env_instructions.EPOCHS", "text"),
        ("env_instructions: {'a=b': text}", "env_instructions", "Rename 'a'"),
        ("image: 2026-01-01 00:00:00", None, None),
    ],
)
def test_every_field_that_stands_in_a_file_is_validated(tmp_path, text, field, part):
    (tmp_path / "one.yaml").write_text(text)
    if field is None:
        assert load_presets(tmp_path, ["one"])[0].fields == {"image": "2026-01-01 00:00:00"}
        return

    (problem,) = problems(tmp_path, "one")

    assert problem.field == f"{tmp_path / 'one.yaml'}: {field}"
    assert part in str(problem)


@pytest.mark.parametrize("text", ["- a", "a: 1\n---\nb: 2", "a: [", "1: a", "text", "a: 1\na: 2"])
def test_a_file_that_is_no_mapping_is_an_error(tmp_path, text):
    (tmp_path / "one.yaml").write_text(text)

    (problem,) = problems(tmp_path, "one")

    assert problem.field == str(tmp_path / "one.yaml")
    assert "one YAML mapping" in problem.allowed


def test_two_files_of_one_name_are_an_error(tmp_path):
    (tmp_path / "one.yaml").write_text("")
    (tmp_path / "one.yml").write_text("")

    assert "one file for each name" in problems(tmp_path, "one")[0].allowed


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ()),
        ("", ()),
        ([], ()),
        ("large", ("large",)),
        (" large, bert ,", ("large", "bert")),
        (["large", "bert"], ("large", "bert")),
    ],
)
def test_names_come_as_a_list_or_as_text(value, names):
    assert preset_names(value) == names


@pytest.mark.parametrize("value", ["['large']", 3, {"a": 1}, ["a"] * 17, [None], [1.5]])
def test_what_is_no_list_of_names_is_refused(value):
    with pytest.raises(SpecError) as caught:
        preset_names(value)
    assert caught.value.problems[0].field.startswith("presets")


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path):
    with pytest.raises(SpecError) as caught:
        read_mapping(tmp_path / "gone.yaml")

    (problem,) = caught.value.problems
    assert problem.field == str(tmp_path / "gone.yaml")
    assert problem.fix == "Correct it: No such file or directory."
