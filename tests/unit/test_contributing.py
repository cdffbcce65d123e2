"""The diffs that CONTRIBUTING shows as recipes are those of the files; pages show the layers that the contract has."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.unit.named_tests import ROOT

_PAGE = (ROOT / "CONTRIBUTING.md").read_text()
_DIFFS = re.findall(r"^```diff\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)


#: Of the package, from the top.
_LAYERS = re.findall(
    r'"(.*)"',
    re.search(
        r'^containers = \["airflow_trainer_provider"\]\n.*?^layers = \[(.*?)^\]',
        (ROOT / "pyproject.toml").read_text(),
        re.DOTALL | re.MULTILINE,
    )[1],
)


def _files():
    """Path and shown lines of each file of each diff."""
    for diff in _DIFFS:
        for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
            path, _, lines = part.partition("\n")
            yield pytest.param(path, lines.splitlines(), id=path)


_of_each_file = pytest.mark.parametrize(("path", "lines"), [*_files()])


def _hunks(lines):
    """Lines that follow each other in the file."""
    hunks = [[]]
    for line in lines:
        if line.startswith("+"):
            hunks[-1].append(line[1:])
        else:
            hunks.append([])
    return ["\n".join(hunk) for hunk in hunks if hunk]


def test_there_are_recipes_for_a_framework_and_for_a_field():
    assert len(_DIFFS) == 2


@_of_each_file
def test_the_lines_of_a_recipe_are_those_of_the_file(path, lines):
    text = (ROOT / path).read_text()
    hunks = _hunks(lines)

    assert hunks
    for hunk in hunks:
        assert f"\n{hunk}\n" in text


@_of_each_file
def test_a_recipe_names_the_place_in_a_module(path, lines):
    places = [line.removeprefix("@@ ") for line in lines if line.startswith("@@ ")]

    if path.endswith(".py"):
        assert [place for place in places if place not in (ROOT / path).read_text()] == []


def test_no_module_asks_which_framework_it_is():
    question = re.compile(r"framework(\.name)? (==|!=|in|not in) [\[({]?[\"']")
    package = ROOT / "airflow_trainer_provider"
    modules = [each for each in package.rglob("*.py") if "frameworks" not in each.parts]

    assert len(modules) > 300
    assert [str(each) for each in modules if question.search(each.read_text())] == []


def test_the_layers_are_those_of_the_contract():
    assert " > ".join(_LAYERS) in " ".join(_PAGE.split())


def test_no_layer_of_the_diagram_is_above_one_that_may_import_it():
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    diagram = re.search(r"^```{layers} .*?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[1]
    ranks = {name: rank for rank, layer in enumerate(_LAYERS) for name in layer.split(" | ")}
    shown = [
        re.findall(r"^  (\w+): ", layer, re.MULTILINE) for layer in re.split(r"^(?=\S)", diagram, flags=re.MULTILINE)
    ]
    rows = [[ranks[name] for name in names] for names in shown if names]

    assert len(rows) > 5
    for upper, lower in itertools.pairwise(rows):
        assert max(upper) <= min(lower), diagram
