"""What ``python -m tests.cluster built`` says of a machine."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests.cluster import cluster, preflight
from tests.cluster.__main__ import NOT_BUILT, main


@pytest.mark.parametrize(
    ("machine", "cache", "code", "says"),
    [
        ([], [], 0, ""),
        (["root: run it with sudo"], [], NOT_BUILT, "which lacks root: run it with sudo\n"),
        ([], ["kubelet", "the image worker"], NOT_BUILT, "which lacks kubelet (and 1 more)\n"),
    ],
)
def test_what_is_missing_is_named_in_one_line(monkeypatch, capsys, machine, cache, code, says):
    monkeypatch.setattr(sys, "argv", ["cluster", "built"])
    monkeypatch.setattr(preflight, "missing", lambda: machine)
    monkeypatch.setattr(cluster, "Cluster", lambda: SimpleNamespace(missing=lambda: cache))

    assert main() == code
    printed = capsys.readouterr().out
    assert (printed.partition(", ")[2], printed.count("\n")) == (says, 1 if code else 0)
