"""Each contract of pyproject.toml refuses an import that it forbids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.named_tests import ROOT

PACKAGE = "airflow_trainer_provider"
#: Contract -> a module, and what it must not import.
FORBIDDEN = {
    "package": ("frameworks/jax.py", f"import {PACKAGE}.kinds.base"),
    "cluster": ("cluster/api/clock.py", f"import {PACKAGE}.cluster.state.objects"),
    "kinds": ("kinds/objects/pod.py", f"import {PACKAGE}.kinds.registry"),
    "job": ("job/status.py", f"import {PACKAGE}.job.follow"),
    "airflow": ("kinds/base.py", "import airflow.models"),
    "kubernetes": ("local/render.py", "import kubernetes"),
}
PLACES = {"module": "{}", "function": "def late():\n    {}", "types": "if TYPE_CHECKING:\n    {}"}
#: The report breaks no line.
WIDE = {**os.environ, "COLUMNS": "300"}
#: Contracts whose layers name every module of a package.
EXHAUSTIVE = {"package": "", "cluster": "cluster", "kinds": "kinds", "job": "job"}


@pytest.fixture
def package(tmp_path):
    """A copy of the package, with the contracts beside it."""
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path / PACKAGE


def check(package, contract):
    """Check one contract; whether it holds, and the report."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--contract", contract]
    result = subprocess.run(
        command, cwd=package.parent, capture_output=True, text=True, check=False, timeout=180, env=WIDE
    )
    return "1 kept, 0 broken" in result.stdout, result.stdout


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("contract", FORBIDDEN)
def test_a_forbidden_import_is_refused(package, contract, place):
    assert check(package, contract)[0]
    file, statement = FORBIDDEN[contract]
    module = package / file

    module.write_text(f"{module.read_text()}\nfrom typing import TYPE_CHECKING\n{PLACES[place].format(statement)}\n")

    holds, report = check(package, contract)
    assert not holds
    importer = f"{PACKAGE}.{file.removesuffix('.py').replace('/', '.')}"
    # Of another distribution the report names the top alone.
    imported = statement.split()[1] if PACKAGE in statement else statement.split()[1].partition(".")[0]
    assert f"{importer} -> {imported} (l." in report


@pytest.mark.parametrize("place", PLACES)
def test_a_circle_of_imports_is_refused(package, place):
    assert check(package, "cycles")[0]
    module = package / "text" / "redaction.py"
    statement = PLACES[place].format(f"import {PACKAGE}.text.hidden_values")

    module.write_text(f"{module.read_text()}\nfrom typing import TYPE_CHECKING\n{statement}\n")

    holds, report = check(package, "cycles")
    assert not holds
    assert f"No cycles are allowed in {PACKAGE}.text." in report


@pytest.mark.parametrize("contract", EXHAUSTIVE)
def test_a_module_without_a_layer_is_refused(package, contract):
    (package / EXHAUSTIVE[contract] / "another.py").write_text("")

    holds, report = check(package, contract)

    assert not holds
    assert "another" in report


def test_no_folder_of_the_package_has_more_than_twelve_modules():
    folders = [ROOT / PACKAGE, *(each.parent for each in (ROOT / PACKAGE).rglob("*/__init__.py"))]
    modules = {folder: [each for each in folder.glob("*.py") if each.name != "__init__.py"] for folder in folders}

    assert len(modules) > 20
    assert {folder.name: len(found) for folder, found in modules.items() if len(found) > 12} == {}


def test_the_folders_of_the_unit_tests_are_those_of_the_package():
    others = {"ci", "cluster_harness", "fakes"}
    unit = ROOT / "tests" / "unit"
    folders = {each.parent.relative_to(unit) for each in unit.rglob("test_*.py")}

    packages = {each.parent.relative_to(ROOT / PACKAGE) for each in (ROOT / PACKAGE).rglob("__init__.py")}
    assert {str(each) for each in folders - packages} == others
    assert {str(each) for each in packages - folders} == set()
