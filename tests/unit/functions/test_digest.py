"""A function's digest: the same where it does the same, as a try adopts the job of an earlier one by it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from airflow_trainer_provider.functions import code
from airflow_trainer_provider.functions.code import code_of

DECORATORS = ("train_job",)
DAG = """
from __future__ import annotations
import own_net
train_job = lambda function: function
RATE = 0.1
@train_job
def f(rows, rate=RATE):
    return own_net.SIZE
"""
NET = "SIZE = 40  # of the net\n"


@pytest.fixture
def digest(dag_file, tmp_path, monkeypatch):
    """Function (DAG file, module, arguments...) for the digest of the function f."""
    (tmp_path / "dags").mkdir()
    # Importing the DAG file reads no module: what counts is its text.
    monkeypatch.setitem(sys.modules, "own_net", ModuleType("own_net"))

    def digest(dag=DAG, net=NET, *args, **kwargs):
        (tmp_path / "dags" / "own_net.py").write_text(net)
        return code_of(dag_file(dag).f, ["own_net"], DECORATORS).digest(args, kwargs)

    return digest


def test_what_changes_nothing_that_runs_keeps_the_digest(digest, monkeypatch):
    plain = digest()

    assert digest("# A comment.\n\n" + DAG.replace("RATE = 0.1", "OTHER = 1\n\nRATE = 0.10  # slow")) == plain
    assert digest(DAG, "# Another comment.\n\nSIZE = (40)\n") == plain
    assert digest(DAG, NET, rows=[1], rate=2) == digest(DAG, NET, rate=2, rows=[1]) != plain
    other_version = {"runner.py": "# of another version of the provider\n", "provider/more.py": ""}
    monkeypatch.setattr(code, "_ours", lambda: other_version)
    assert digest() == plain


def test_what_changes_what_runs_changes_the_digest(digest):
    digests = [
        digest(),
        digest(DAG.replace("0.1", "0.2")),
        digest(DAG.replace("rows, rate", "rows, /, rate")),
        digest(DAG.replace("return own_net.SIZE", "return own_net.SIZE, None")),
        digest(DAG.replace("return own_net.SIZE", "return -own_net.SIZE")),
        digest(DAG, "SIZE = 41\n"),
        digest(DAG, "SIZE = '40'\n"),
        digest(DAG, NET, 1),
        digest(DAG, NET, rows=1),
    ]

    assert len(set(digests)) == len(digests)


def test_a_module_that_the_workers_python_cannot_read_counts_as_text(digest):
    newer, deep = "SIZE = ?\n", f"SIZE = {'-' * 3000}1\n"

    assert len({digest(DAG, net) for net in (newer, f"# {newer}", deep, f"#\n{deep}")}) == 4
