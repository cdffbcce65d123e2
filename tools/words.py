"""Fails on words that the docs, comments and names of this project do not use; behind `make lint`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Pattern -> what to write instead. A word is found in prose and as part of a name (`_tell`, `isTold`), but not inside
#: of another word (`storytelling`). A space also stands for an underscore, and for a line break
#: with the `#` of a comment after it.
WORDS = {
    "somebody(?:s|else)?": "name who: a user, a person, another client; or use the passive",
    "nobody": "name who does not: no user, no client, no controller; or use the passive",
    "tells?": "report, show, return, notify; distinguish; `file.tell()` may stay",
    "told": "reported, shown, notified, output; for a request: asked, ordered",
    "telling": "reporting, showing, notifying",
    "anew": "again, from the start; re-list, re-create, retrain",
    r"(?<!instead\s)of before": "from the previous run, previous, earlier",
    "whose turn": "say what it waits for: not implemented yet, the next in the queue",
    "afresh": "again, from the start",
    r"how (?:\w+ ){1,2}stands?": "name it: the status, the state, the phase",
    "needs? nothing of": "does not import, does not use",
    "lets? go of": "release, free",
    "let go at": "released at",
    "conclusions?": "the outcome",
    "troubles?": "the error, the fault",
    "patience": "the timeout, the deadline",
    "standing": "the controller status",
    "(?:what|nothing) came of": "the outcome, the result; had no effect",
    "to be had": "available",
    "ends? (?:the|a) wait well": "the wait succeeds",
}

FOLDERS = ("airflow_trainer_provider/", "benchmarks/", "dags/", "deploy/", "docs/", "tests/", "tools/")
SUFFIXES = (".js", ".md", ".py", ".sh", ".yaml")
OTHERS = (
    ".ci/all",
    ".ci/run",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "pyproject.toml",
)
#: Files that contain the words themselves.
EXCEPT = ("tests/unit/test_words.py", "tools/words.py")


def _compiled(words: str) -> re.Pattern[str]:
    """The pattern of words that stand alone, or are a part of a `snake_case` or a `camelCase` name."""
    words = words.replace(" ", r"(?:[ \t]+|_|[ \t]*\n[ \t]*(?:#:?[ \t]*)?)")
    return re.compile(rf"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?!(?<=\.)tell\()(?i:{words})(?![a-z]|(?<=[A-Z])[A-Z])")


_PATTERNS = [(_compiled(words), advice) for words, advice in WORDS.items()]


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Find the words in a text that have to be replaced: the line, the word and the advice, line by line.

    :param text: of a file.
    """
    found = [(match.start(), match[0], advice) for pattern, advice in _PATTERNS for match in pattern.finditer(text)]
    for start, word, advice in sorted(found):
        yield text.count("\n", 0, start) + 1, " ".join(word.replace("#", " ").split()), advice


def paths(root: Path) -> list[str]:
    """The files to check, as paths from the root of a checkout: those that git tracks, or does not ignore.

    :param root: of the checkout.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    read = [path for path in listed if path in OTHERS or (path.startswith(FOLDERS) and path.endswith(SUFFIXES))]
    return sorted(path for path in set(read) - set(EXCEPT) if (root / path).is_file())


def main(root: Path = ROOT) -> int:
    """Print each finding of a checkout.

    :param root: of the checkout.
    :return: the exit status: 1 if there is any.
    """
    count = 0
    for path in paths(root):
        for line, word, advice in findings((root / path).read_text(encoding="utf-8")):
            print(f"{path}:{line}: {word}: write instead: {advice}")
            count += 1
    if count:
        print(f"{count} words to replace; the table is in tools/words.py.", file=sys.stderr)
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
