"""Finds the programs that a command runs: its own program, and those that interpreters and runners such as ``uv run``
start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

#: A command line, one item per word.
Command = tuple[str, ...]

#: Options of Python: flags and ``-m``, in one word or before the module, and those that take the next word.
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvx]*m(?P<name>.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
#: The maximum number of nested runners: a runner starts a program that may be a runner as well.
_MOST_RUNNERS = 5


@dataclass(frozen=True)
class _Runner:
    """A program that starts another program, which its arguments name.

    :param verb: the subcommand that starts the program; empty for none.
    :param with_value: its options that take the next word.
    :param module_flags: its options after which the program is a Python module.
    :param takes_variables: whether words such as ``NAME=value`` may come before the program.
    """

    verb: str = ""
    with_value: frozenset[str] = field(default_factory=frozenset)
    module_flags: frozenset[str] = field(default_factory=frozenset)
    takes_variables: bool = False


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UV = _options(
    "--allow-insecure-host --cache-dir --color --config-file --config-setting --config-settings-package "
    "--default-index --directory --env-file --exclude-newer --exclude-newer-package --extra --extra-index-url "
    "--find-links --fork-strategy --from --group --index --index-strategy --index-url --keyring-provider "
    "--link-mode --no-binary-package --no-build-isolation-package --no-build-package --no-editable-package "
    "--no-extra --no-group --no-sources-package --only-group --package --prerelease --prerelease-package "
    "--project --python --python-platform --refresh-package --reinstall-package --resolution --upgrade-group "
    "--upgrade-package --with --with-editable --with-requirements -C -P -f -i -p -w"
)
_UV_TOOL = _UV | _options("--build-constraints --constraints --overrides --torch-backend -b -c")
_CONDA = _Runner("run", _options("--cwd --name --prefix --root-prefix -n -p -r"))
#: Name of the program -> runner. Without pdm, pixi, hatch and others: what they run may be a project's alias for a
#: command.
_RUNNERS: Mapping[str, _Runner] = {
    "conda": _CONDA,
    "env": _Runner(with_value=_options("--chdir --unset -C -u"), takes_variables=True),
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "nice": _Runner(with_value=_options("--adjustment -n")),
    "nohup": _Runner(),
    "numactl": _Runner(
        with_value=_options(
            "--cpunodebind --interleave --membind --physcpubind --preferred --preferred-many --weighted-interleave "
            "-C -N -P -i -m -p -w"
        )
    ),
    "poetry": _Runner("run", _options("--directory --project -C -P")),
    "stdbuf": _Runner(with_value=_options("--error --input --output -e -i -o")),
    "time": _Runner(with_value=_options("--format --output -f -o")),
    "uv": _Runner("run", _UV, module_flags=_options("--module -m")),
    "uvx": _Runner(with_value=_UV_TOOL),
}


def programs_of(command: Command) -> Iterator[str]:
    """The programs that a command runs: its own program, and the module or script that a Python interpreter runs.

    :param command: what the user wrote; it may begin with runners, each of which is among the programs.
    """
    for _ in range(_MOST_RUNNERS):
        if not command:
            return
        program = PurePath(command[0]).name
        yield program
        if program.startswith("python"):
            yield from _run_by_python(command[1:])
            return
        runner = _RUNNERS.get(program)
        if runner is None:
            return
        is_module, command = _run_by(runner, command[1:])
        if is_module:
            yield from command[:1]
            return


def _run_by_python(options: Command) -> Iterator[str]:
    words = iter(options)
    for word in words:
        module = _MODULE.fullmatch(word)
        if module:
            yield module["name"] or next(words, "")
            return
        if word == "-c":
            return
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            yield PurePath(word).name
            return


def _run_by(runner: _Runner, options: Command) -> tuple[bool, Command]:
    """Whether a runner starts a Python module, and the command that it starts; empty where it starts none.

    :param options: the words after the runner.
    """
    verb, is_module, index = runner.verb, False, 0
    while index < len(options):
        word = options[index]
        if word.startswith("-"):
            is_module = is_module or word in runner.module_flags
            index += 2 if word in runner.with_value else 1
        elif runner.takes_variables and _VARIABLE.fullmatch(word):
            index += 1
        elif not verb:
            return is_module, options[index:]
        elif word == verb:
            verb, index = "", index + 1
        else:
            break
    return False, ()
