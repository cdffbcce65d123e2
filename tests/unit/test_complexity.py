"""The tool with which `make lint` limits how complex a function may be."""

from __future__ import annotations

import pytest

from tools.complexity import main


@pytest.fixture
def run(tmp_path, capsys):
    """Run the tool on a module; return its exit status and what it printed."""

    def run(code):
        (tmp_path / "module.py").write_text(code)
        status = main([str(tmp_path)])
        return status, capsys.readouterr().out.replace(f"{tmp_path}/", "")

    return run


def flat(ways):
    """A function with as many ways through it, none inside of another."""
    return "def choose(x):\n" + "".join(f"    if x == {at}:\n        return {at}\n" for at in range(ways - 1))


def nested(depth):
    """A function with branches inside of each other; the cognitive complexity is 1 + 2 + ... + depth."""
    return (
        "def dig(x):\n"
        + "".join(f"{'    ' * at}if x > {at}:\n" for at in range(1, depth + 1))
        + "    " * depth
        + "    x"
    )


def test_functions_at_the_limits(run):
    assert run(f"{flat(12)}\n\n{nested(5)}\n") == (0, "0 functions in 1 files are too complex.\n")


def test_too_many_ways_through_a_function(run):
    status, printed = run(flat(13))
    assert status == 1
    assert "module.py:1: choose: cyclomatic complexity 13 > 12\n" in printed
    assert "1 functions in 1 files are too complex.\n" in printed


def test_conditions_and_comprehensions_count(run):
    terms = " or ".join(f"x == {at}" for at in range(10))
    assert run(f"def choose(xs):\n    return [x for x in xs if {terms}]\n")[0] == 0
    status, printed = run(f"def choose(xs):\n    return [x for x in xs if {terms} or x > 99]\n")
    assert status == 1
    assert "cyclomatic complexity 13 > 12" in printed


def test_branches_inside_of_each_other(run):
    status, printed = run(nested(6))
    assert status == 1
    assert "module.py:1: dig: cognitive complexity 21 > 15\n" in printed


def test_methods_of_classes_inside_of_classes(run):
    body = "".join(f"        {line}\n" for line in flat(13).splitlines())
    status, printed = run(f"class Outer:\n    class Inner:\n{body}")
    assert status == 1
    assert "choose: cyclomatic complexity 13 > 12" in printed


def test_a_folder_without_code_is_not_in_order(tmp_path):
    assert main([str(tmp_path)]) == 1
