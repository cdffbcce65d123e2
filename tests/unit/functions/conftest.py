"""Writes DAG files, and runs what travels of their functions as a job does: in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_trainer_provider.functions.code import code_of
from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES

#: Stands for Airflow's ``task``: the decorator returns the function, as its operator gets it.
DECORATORS = ("train_job",)


@dataclass
class Ended:
    """What became of a runner.

    :param code: its exit code.
    :param result: what it has written for rank 0; None for nothing.
    :param out: its lines.
    """

    code: int
    result: Any
    out: str


@pytest.fixture
def dag_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Function (source, file name) that writes a DAG file and imports it, as Airflow does."""

    def load(source: str, name: str = "my_dag.py") -> ModuleType:
        path = tmp_path / "dags" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(f"dag_{uuid.uuid4().hex}", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ended]:
    """Function (function, arguments...) that runs it as a job does."""

    def run(
        function: Any,
        *args: Any,
        include: Any = None,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        limit: int = VALUE_LIMIT_BYTES,
        **kwargs: Any,
    ) -> Ended:
        code = code_of(function, include, DECORATORS)
        folder = tmp_path / uuid.uuid4().hex
        for name, content in code.call(args, kwargs, limit).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        result = folder / "result"
        ended = subprocess.run(
            [python, str(folder / "runner.py")],
            env={
                "PATH": os.environ["PATH"],
                "TRAINER_RESULT_PATH": str(result),
                "TRAINER_RANK_VARIABLES": "RANK,PMI_RANK",
                **(env or {}),
            },
            cwd=folder.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(ended.returncode, json.loads(result.read_text()) if result.exists() else None, ended.stdout)

    return run


def python_of(version: str) -> str:
    """An interpreter of that version; one that is not there, or does not start, skips."""
    found = [shutil.which(f"python{version}"), *Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python")]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(python)
    pytest.skip(f"there is no Python {version}")
