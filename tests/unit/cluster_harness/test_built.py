"""What ``python -m tests.cluster built`` says of a machine."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests.cluster import cluster, images, preflight
from tests.cluster.__main__ import NOT_BUILT, main

_NO_ROOT = ["root: run it with sudo", "Go 1.24 or newer"]
_NOT_BUILT = "no cluster is built on this machine, which lacks"


@pytest.mark.parametrize(
    ("machine", "cached", "cache", "code", "says"),
    [
        ([], True, [], 0, ""),
        (
            _NO_ROOT,
            False,
            [],
            NOT_BUILT,
            f"{_NOT_BUILT} root: run it with sudo (and 1 more)",
        ),
        ([], True, ["kubelet"], NOT_BUILT, f"{_NOT_BUILT} kubelet"),
        # The tests ran here before, and would be left out from now on without notice.
        (_NO_ROOT, True, [], 1, "a cluster is built on this machine, and it lacks root: run it with sudo"),
    ],
)
def test_what_is_missing_is_named_in_one_line(monkeypatch, capsys, machine, cached, cache, code, says):
    monkeypatch.setattr(sys, "argv", ["cluster", "built"])
    monkeypatch.setattr(preflight, "missing", lambda: machine)
    monkeypatch.setattr(images, "any_cached", lambda: cached)
    monkeypatch.setattr(cluster, "Cluster", lambda: SimpleNamespace(missing=lambda: cache))

    assert main() == code
    assert capsys.readouterr().out.strip() == says
