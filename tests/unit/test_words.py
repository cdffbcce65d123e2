"""Words that this project does not use are found, with what to write instead; others are left alone."""

from __future__ import annotations

import subprocess

import pytest

from tools import words


def found(text):
    return [(line, word) for line, word, _ in words.findings(text)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("It waits until somebody deletes it.", "somebody"),
        ("It is somebody else's.", "somebody"),
        ("Nobody reads it.", "Nobody"),
        ("_NOBODY = 65534", "NOBODY"),
        ("What the API server tells us.", "tells"),
        ("def tell(self): ...", "tell"),
        ("self.tell_collected()", "tell"),
        ("client.tells(event)", "tells"),
        ("told = capsys.readouterr()", "told"),
        ("class _Told:", "Told"),
        ("wasTold = True", "Told"),
        ('{"told": 9}', "told"),
        ("from tests.faults import TELLING", "TELLING"),
        ("a cleared task trains anew", "anew"),
        ("def test_it_trains_anew():", "anew"),
        ("the pods of before are gone", "of before"),
        ("# The pods of\n    # before are gone.", "of before"),
        ("The pods of\nbefore are gone.", "of before"),
        ("a package whose turn has not come yet", "whose turn"),
        ("The log is asked for afresh.", "afresh"),
        ("How the job stands, and why.", "How the job stands"),
        ("// What is compared, how we stand.", "how we stand"),
        ("A script needs nothing of this package.", "needs nothing of"),
        ("# The kernel lets\n    # go of it.", "lets go of"),
        ("def let_go_at(pod): ...", "let_go_at"),
        ("The conclusion of a wait.", "conclusion"),
        ("The node is in trouble.", "trouble"),
        ("RUN_PATIENCE = 3", "PATIENCE"),
        ("class Standing:", "Standing"),
        ("What came of the job.", "What came of"),
        ("Its source is not to be had.", "to be had"),
        ("The phases that end the wait well.", "end the wait well"),
    ],
)
def test_a_word_is_found(text, word):
    assert found(text) == [(1, word)]


@pytest.mark.parametrize(
    "text",
    [
        "Storytelling and foretold fortunes, retold by fortune-tellers.",
        "position = file.tell()",
        "A satellite with intellect.",
        "A renewed wax anewal.",
        "instead of before",
        "of beforehand",
        "Whose turned pages?",
        "Everybody and anybody may read it.",
    ],
)
def test_other_words_are_left_alone(text):
    assert found(text) == []


def test_words_are_found_line_by_line_with_advice():
    rows = list(words.findings("It tells it.\n\nNobody lists anew.\n"))
    assert [(line, word) for line, word, _ in rows] == [(1, "tells"), (3, "Nobody"), (3, "anew")]
    assert all(advice in words.WORDS.values() for _, _, advice in rows)


def test_each_pattern_has_advice_that_passes():
    """But for the call that may stay."""
    assert [(line, word) for line, word in found("\n".join(words.WORDS.values())) if word != "tell"] == []


def test_files_of_a_checkout(tmp_path, capsys):
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    read = ["README.md", "docs/how-to/a.md", "tests/test_a.py", "tools/mutants/lists/a.yaml", ".ci/run"]
    others = ["docs/data.json", "somewhere/a.py", "LICENSE", "tools/words.py", "docs/_build/a.md"]
    for path in read + others:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("Nothing.\nIt is told.\n")
    (tmp_path / ".gitignore").write_text("docs/_build\n")

    assert words.main(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{path}:2" for path in sorted(read)]
    assert lines[0].endswith(": told: write instead: reported, shown, notified, output; for a request: asked, ordered")

    for path in read:
        (tmp_path / path).unlink()
    assert words.main(tmp_path) == 0
