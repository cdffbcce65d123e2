"""The tool behind `make mutants`, on a checkout of one function and its tests."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from tests.unit.named_tests import problem
from tools.mutants.__main__ import CHECKOUT, LISTS, main
from tools.mutants.mutation import read_lists

MODULE = """\
def price(count):
    if count > 10:
        return count * 9
    return count * 10
"""
TESTS = """\
import time

from shop import price

def test_one():
    assert price(1) == 10

def test_many():
    assert price(20) == 180

def test_a_hang():
    while price(1) != 10:
        time.sleep(0.1)
"""
#: Mutations of the module, by name.
MUTATIONS = {
    "one is free": ("count * 10", "count * 0"),
    "no discount": ("count > 10", "count > 1000"),
    "the discount begins late": ("count > 10", "count > 12"),
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    # Plugins take half a second each time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    (tmp_path / "tests").mkdir()
    (tmp_path / "lists").mkdir()
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "tests/test_shop.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = ["-ra"]\n')
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture
def run(checkout, capsys):
    """Run the tool on a list of names of mutations, or of whole entries; return its exit status and what it printed."""

    def run(*entries, options=()):
        listed = [entry_of(entry) if isinstance(entry, str) else entry for entry in entries]
        (checkout / "lists/shop.yaml").write_text(yaml.safe_dump(listed))
        command = ["--checkout", str(checkout), "--lists", str(checkout / "lists"), "--workers", "2", *options]
        status = main(command)
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def entry_of(name, **others):
    old, new = MUTATIONS[name]
    return {"name": name, "file": "shop.py", "old": old, "new": new, "tests": "tests/test_shop.py"} | others


def test_mutations_that_the_tests_notice(run, checkout):
    status, printed = run("one is free", "no discount")
    assert status == 0
    assert "shop.py: one is free\n" in printed
    assert "tests/test_shop.py::test_one fails" in printed
    assert "tests/test_shop.py::test_many fails" in printed
    assert "2 mutations: 2 killed; " in printed
    assert (checkout / "shop.py").read_text() == MODULE


def test_a_mutation_that_no_test_notices(run):
    status, printed = run("one is free", "the discount begins late")
    assert status == 1
    assert "SURVIVED" in printed
    assert "shop.py: the discount begins late\n" in printed
    assert "2 mutations: 1 SURVIVED, 1 killed; " in printed


def test_only_the_named_tests_count(run):
    status, printed = run(entry_of("no discount", tests="tests/test_shop.py::test_one"))
    assert status == 1
    assert "none of tests/test_shop.py::test_one fails" in printed


@pytest.mark.slow
def test_a_mutation_that_makes_a_test_hang_is_ended(run):
    hangs = entry_of("one is free", tests="tests/test_shop.py::test_a_hang")
    status, printed = run(hangs, options=["--limit", "4"])
    assert status == 0
    assert "tests/test_shop.py::test_a_hang hangs" in printed
    assert "1 mutations: 1 timed out; " in printed


def test_a_mutation_whose_tests_a_busy_machine_stalled_is_not_noticed(run, checkout):
    stalls = f"""
import os
def test_stalls():
    if price(20) != 180 and not os.path.exists("{checkout}/stalled"):
        open("{checkout}/stalled", "w").close()
        time.sleep(60)
"""
    (checkout / "tests/test_shop.py").write_text(TESTS + stalls)
    stalled = entry_of("no discount", tests="tests/test_shop.py::test_stalls")
    status, printed = run(stalled, options=["--limit", "4"])
    assert status == 1
    assert "1 mutations: 1 SURVIVED; " in printed


@pytest.mark.slow
def test_a_mutation_that_keeps_the_process_from_ending_is_ended(run, checkout):
    at_exit = "if price(1) != 10:\n    import atexit\n    atexit.register(time.sleep, 300)\n"
    (checkout / "tests/test_shop.py").write_text(TESTS + at_exit)
    status, printed = run(entry_of("one is free", tests="tests/test_shop.py::test_one"), options=["--limit", "1.5"])
    assert status == 0
    assert "tests/test_shop.py::test_one hangs" in printed


def test_a_mutation_that_no_test_can_import_is_none(run):
    status, printed = run(entry_of("one is free", old="def price", new="def prices"))
    assert status == 1
    assert "NOT TRIED" in printed
    assert "cannot import name 'price'" in printed


def test_tests_that_fail_without_a_mutation_notice_nothing(run, checkout):
    (checkout / "tests/test_shop.py").write_text(TESTS.replace("== 180", "== 200"))
    status, printed = run("one is free")
    assert status == 1
    assert "The tests have to pass before anything is broken." in printed
    assert "killed" not in printed


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (entry_of("one is free", old="count * 11"), "`old` occurs 0 times, and not once"),
        (entry_of("one is free", old="return"), "`old` occurs 2 times, and not once"),
        (entry_of("one is free", new="count * 10"), "`new` is the same as `old`"),
        (entry_of("one is free", new="count *"), "invalid syntax"),
        (entry_of("one is free", file="store.py"), "store.py: one is free: there is no such file"),
        (entry_of("one is free", new=0), "an entry has the texts file, name, new, old, tests"),
        ({"name": "one is free"}, "an entry has the texts file, name, new, old, tests"),
        (entry_of("no discount"), "this name comes twice: no discount"),
    ],
)
def test_a_list_that_does_not_fit(run, entry, complaint):
    status, printed = run("no discount", entry)
    assert status == 1
    assert complaint in printed
    assert "killed" not in printed


def test_a_list_that_is_no_yaml(run, checkout):
    (checkout / "lists/wrong.yaml").write_text("- name: a: b\n")
    status, printed = run("no discount")
    assert status == 1
    assert "wrong.yaml: mapping values are not allowed here" in printed


def test_some_mutations(run):
    status, printed = run("one is free", "the discount begins late", options=["-k", "is free"])
    assert status == 0
    assert "1 mutations: 1 killed; " in printed
    assert run("one is free", options=["-k", "nothing"]) == (1, "no mutation has 'nothing' in its name or its file\n")


def test_each_listed_mutation_fits_the_code_and_names_tests_that_are_there():
    tests = {test for mutation in read_lists(LISTS, CHECKOUT) for test in mutation.tests}
    assert {test: problem(test) for test in tests if problem(test)} == {}
