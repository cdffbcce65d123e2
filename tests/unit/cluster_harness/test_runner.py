"""The closing table, and the refusal on a machine that lacks something."""

from __future__ import annotations

import json

import pytest

from tests.cluster import preflight, runner


def test_table_has_a_row_for_each_kind():
    lines = "\n".join(
        json.dumps({"kind": kind, "seconds": seconds}) for kind, seconds in (("PyTorchJob", 6.17), ("Job", 12))
    )
    assert runner.table(lines).splitlines() == [
        "Kind        Seconds from create to success",
        "------------------------------------------",
        "PyTorchJob      6.2",
        "Job            12.0",
    ]


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_missing_parts_skip_loudly_and_fail_only_in_ci(ci, code, monkeypatch, capsys):
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("TRAINER_TEST_KUBECONFIG", raising=False)
    monkeypatch.setattr(preflight, "missing", lambda: ["root: to make namespaces"])
    assert runner.run_tests([]) == code
    printed = capsys.readouterr().out
    assert "THE CLUSTER TESTS DID NOT RUN" in printed
    assert "root: to make namespaces" in printed
    assert "TRAINER_TEST_KUBECONFIG" in printed


def test_preflight_names_what_is_missing(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert any(problem.startswith("root") for problem in preflight.missing())


def test_preflight_without_go(monkeypatch):
    def absent():
        raise FileNotFoundError

    monkeypatch.setattr(preflight, "go_program", absent)
    assert any(problem.startswith("Go 1.") for problem in preflight.missing())


def test_old_go_is_too_old(monkeypatch):
    monkeypatch.setattr(preflight, "run", lambda *argv: "go1.9.7\n")
    monkeypatch.setattr(preflight, "go_program", lambda: "go")
    assert any("go1.9.7" in problem for problem in preflight.missing())
