"""Whether a test exists that a page or a list names, as pytest does: a case, a test, a file or a folder."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def problem(node_id):
    """What is wrong with the name of a test, or of a file or folder of tests; None if nothing is."""
    match = re.fullmatch(r"(tests(?:/\w+)+|(tests/[\w/]+\.py)(?:::(test_\w+)(?:\[([\w-]+)\])?)?)", node_id)
    if match is None:
        return "it is no name of a test"
    file, name, case = ROOT / (match[2] or match[1]), match[3], match[4]
    if not file.exists():
        return "there is no such file"
    if name and name not in _functions(file):
        return "there is no such test in the file"
    if case:
        text = "|".join(map(re.escape, _texts(file)))
        if not re.fullmatch(f"({text})(-({text}))*", case):
            return "there is no such case"
    return None


@functools.cache
def _tree(file):
    return ast.parse(file.read_text() if file.exists() else "")


def _imports(file):
    """The other files of the tests that a file imports names from, with these names."""
    nodes = [node for node in _tree(file).body if isinstance(node, ast.ImportFrom)]
    return [
        (ROOT / f"{node.module.replace('.', '/')}.py", [each.name for each in node.names])
        for node in nodes
        if node.module.startswith("tests.")
    ]


@functools.cache
def _functions(file):
    """The functions of a file, including those it imports with a star."""
    own = {node.name for node in _tree(file).body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return own.union(*(_functions(other) for other, names in _imports(file) if names == ["*"]))


def _texts(file):
    """The texts that can appear in the name of a test's case: those of its file, its fixtures and its imports."""
    files = {file, *(other for other, _ in _imports(file)), *(folder / "conftest.py" for folder in file.parents)}
    constants = [node.value for each in files for node in ast.walk(_tree(each)) if isinstance(node, ast.Constant)]
    return {value for value in constants if isinstance(value, str) and value}
