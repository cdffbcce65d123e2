"""Running commands: output is kept and shown when a command fails, and only then."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class CommandFailed(RuntimeError):
    """A command of the harness exited non-zero, or took too long; the message carries the end of its output."""


def run(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
) -> str:
    """Run a command to its end and return what it printed on standard output.

    :param argv: program and arguments.
    :param env: whole environment of the command; this process's own when left out.
    :param cwd: folder to run in.
    :param stdin: text for its standard input; nothing when left out.
    :param timeout: seconds after which it is killed.
    :raises CommandFailed: on a non-zero exit, and when it was killed.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env=env,
            cwd=cwd,
            input=stdin or "",
            capture_output=True,
            text=True,
            # A container's log may hold anything.
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{_short(words)} did not end within {error.timeout:.0f} s") from error
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-3000:]
        raise CommandFailed(f"{_short(words)} exited with {done.returncode}:\n{tail}")
    return done.stdout


def run_logged(argv: Sequence[str | Path], log: Path, *, env: Mapping[str, str], cwd: Path | None = None) -> None:
    """Run a long command with all its output in a file.

    :param log: the file, which is overwritten.
    :raises CommandFailed: on a non-zero exit, with the end of the log.
    """
    words = [str(word) for word in argv]
    with log.open("wb") as out:
        code = subprocess.run(
            words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        ).returncode
    if code:
        tail = log.read_text(errors="replace").strip()[-3000:]
        raise CommandFailed(f"{_short(words)} exited with {code}; the whole output is in {log}:\n{tail}")


def with_tries(attempt: Callable[[], T], pause: float = 5) -> T:
    """Do what needs a network, up to three times: one download of many fails now and then.

    :param attempt: what to do.
    :param pause: seconds between two tries; the second pause is twice as long.
    :return: what it returns.
    :raises CommandFailed: of the last try.
    """
    for number in (1, 2):
        try:
            return attempt()
        except CommandFailed as error:
            print(f"try {number} of 3: {error}", flush=True)
            time.sleep(number * pause)
    return attempt()


def _short(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 200 else text[:200] + " ..."
