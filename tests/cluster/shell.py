"""Running commands: output is kept and shown when a command fails, and only then."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandFailed(RuntimeError):
    """A command of the harness exited non-zero; the message carries the end of its output."""


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
    :raises CommandFailed: on a non-zero exit.
    """
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, env=env, cwd=cwd, input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False
    )
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


def _short(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 200 else text[:200] + " ..."
