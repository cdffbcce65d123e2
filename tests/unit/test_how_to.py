"""What stands in README and the how-tos as code is taken by the provider."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator

import airflow_trainer_provider as provider
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.operators.taskflow.operator import FunctionJobOperator
from airflow_trainer_provider.operators.train_job import SPEC_FIELDS, TrainJobOperator
from airflow_trainer_provider.policies.library import load_policies
from airflow_trainer_provider.presets.library import load_presets
from airflow_trainer_provider.spec import check_part
from tests.unit.named_tests import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]


def blocks(language):
    """The blocks of code in a language, but those of another tool."""
    for page in PAGES:
        text = page.read_text()
        for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text[: found.start()].count("\n") + 1
            if not found[1].startswith("# theirs"):
                yield pytest.param(found[1], id=f"{page.relative_to(ROOT)}:{line}")


def inline():
    """What stands in a line as ``field=value``, where it is all there."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for text in re.findall(r"`(\w+=[^`]+)`", line):
                field, _, value = text.partition("=")
                if field in SPEC_FIELDS and "..." not in value:
                    yield pytest.param(field, value, id=f"{page.relative_to(ROOT)}:{number}:{field}")


def written(folder):
    """The files of presets, or of policies, that the how-tos show, by their names in that folder."""
    found = (re.match(rf"# /etc/airflow/{folder}/(\S+)\n", block.values[0]) for block in blocks("yaml"))
    return {match[1]: match.string for match in found if match}


@pytest.fixture
def presets(tmp_path, monkeypatch):
    folder = tmp_path / "presets"
    folder.mkdir()
    for name, text in {"small.yaml": "image: registry.example/small\n", **written("presets")}.items():
        (folder / name).write_text(text)
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(folder))
    return folder


@pytest.fixture(autouse=True)
def configured(monkeypatch):
    """An Airflow with the options that the how-tos speak of, on a machine with room for what they run there."""
    for option, value in {"GIT_IMAGE": "git:1", "S3_IMAGE": "s3:1", "NODE_POOL_LABEL": "example.com/pool"}.items():
        monkeypatch.setenv(f"AIRFLOW__TRAINER__{option}", value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(64))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Function (code) -> the tasks of ours that it makes, and what it defines."""
    tasks = []
    add = DAG.add_task
    monkeypatch.setattr(DAG, "add_task", lambda dag, task: (add(dag, task), tasks.append(task))[0])
    monkeypatch.setenv("TRAINER_RESULT_PATH", str(tmp_path / "result"))

    def run(code):
        given = {name: getattr(provider, name) for name in provider.__all__}
        given |= {"DAG": DAG, "Path": Path, "json": json, "os": os, "path": "model", "__file__": __file__}
        given |= {"count_epochs": lambda: 3, "pick_seed": lambda: 7}
        names = dict(given)
        with DAG("how_to", schedule=None):
            names["urgent"] = BaseOperator(task_id="urgent")
            # The source of a function that is a job is looked for in its file.
            (tmp_path / "how_to.py").write_text(code)
            exec(compile(code, tmp_path / "how_to.py", "exec"), names)
        return [task for task in tasks if isinstance(task, TrainJobOperator)], names

    return run


def is_whole(task):
    """Whether all of a job stands there: not where parts are left out, or come from a file or the form."""
    has_image = task.image is not None or task.presets is not None or task.backend == "local"
    return has_image and task.image is not ... and task.manifest is None and isinstance(task.presets, list | None)


def is_taken(backend, job):
    """Whether a backend can run a job."""
    try:
        backend.check(job)
    except SpecError:
        return False
    return True


@pytest.mark.parametrize("code", blocks("python"))
def test_an_example_is_a_job_or_a_part_of_one(code, run, presets, tmp_path):
    tasks, names = run(code)

    for task in filter(is_whole, tasks):
        if isinstance(task, FunctionJobOperator):
            # What other tasks return is not known here.
            task.op_args, task.op_kwargs = [None for _ in task.op_args], dict.fromkeys(task.op_kwargs)
        job, name = task._job(), task.backend
        backends = [ClusterBackend(each, None, "team") for each in ([name] if name else BACKENDS)]
        assert any(is_taken(each, job) for each in ([LocalBackend(tmp_path, 1, None)] if name == "local" else backends))
    check_part({field: names[field] for field in SPEC_FIELDS if field in names})
    last = ast.parse(code).body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Dict):
        check_part({"volumes": [ast.literal_eval(last.value)]})


@pytest.mark.parametrize(("field", "value"), inline())
def test_a_field_in_the_text_is_right(field, value):
    check_part({field: ast.literal_eval(value)})


def test_the_presets_are_right(presets):
    names = sorted(file.stem for file in presets.iterdir())

    assert names == ["bert", "large", "small"]
    assert len(load_presets(presets, names)) == 3


def test_the_policies_are_right(tmp_path):
    for name, text in written("policies").items():
        (tmp_path / name).write_text(text)

    assert [len(each.policy.rules) for each in load_policies(tmp_path)] == [5]


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_can_be_read(text):
    assert yaml.safe_load(text)
