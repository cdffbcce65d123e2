"""Commands of the harness: what becomes of one that fails, or does not end."""

from __future__ import annotations

import pytest

from tests.cluster.shell import CommandFailed, run, with_tries


def test_a_command_that_does_not_end_has_failed():
    with pytest.raises(CommandFailed, match="sleep 60 did not end within 0 s"):
        run("sleep", "60", timeout=0.1)


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (2, 3)])
def test_a_download_that_fails_is_tried_again(failures, tries, capsys):
    left, made = [CommandFailed("no route")] * failures, []

    def attempt():
        made.append("x")
        if left:
            raise left.pop()
        return "content"

    assert with_tries(attempt, pause=0) == "content"
    assert len(made) == tries
    assert capsys.readouterr().out.count("of 3: no route") == failures


def test_a_download_that_always_fails_fails():
    def attempt():
        raise CommandFailed("no route")

    with pytest.raises(CommandFailed, match="no route"):
        with_tries(attempt, pause=0)
