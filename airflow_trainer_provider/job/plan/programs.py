"""What a command runs: its program, and what interpreters and runners such as ``uv run`` start in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from airflow_trainer_provider.job.plan.framework import Command

#: Options of Python: flags and ``-m``, in one word or before the module, and those that take the next word.
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvx]*m(?P<name>.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
#: A runner starts a program that may be a runner as well.
_MOST_RUNNERS = 5


@dataclass(frozen=True)
class _Runner:
    """A program that starts the program which its words name.

    :param verb: the subcommand that does so; empty for none.
    :param with_value: its options that take the next word.
    :param modules: those of them whose value is a Python module to run.
    :param takes_variables: whether words such as ``NAME=value`` may come before the program.
    """

    verb: str = ""
    with_value: frozenset[str] = field(default_factory=frozenset)
    modules: frozenset[str] = field(default_factory=frozenset)
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
_CONDA = _Runner("run", _options("--cwd --name --prefix -n -p"))
#: By the name of the program.
_RUNNERS: Mapping[str, _Runner] = {
    "conda": _CONDA,
    "env": _Runner(with_value=_options("--chdir --unset -C -u"), takes_variables=True),
    "hatch": _Runner("run"),
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "nice": _Runner(with_value=_options("--adjustment -n")),
    "nohup": _Runner(),
    "numactl": _Runner(with_value=_options("-C -N -P -i -m -p -w")),
    "pdm": _Runner("run", _options("--project -p")),
    "pipenv": _Runner("run"),
    "pixi": _Runner("run", _options("--environment --manifest-path -e")),
    "poetry": _Runner("run", _options("--directory --project -C -P")),
    "rye": _Runner("run"),
    "stdbuf": _Runner(with_value=_options("--error --input --output -e -i -o")),
    "time": _Runner(),
    "uv": _Runner("run", _UV | _options("--module -m"), _options("--module -m")),
    "uvx": _Runner("", _UV),
}


def programs_of(command: Command) -> Iterator[str]:
    """What a command runs: its program, and the module or script that a Python interpreter runs.

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
        module, command = _run_by(runner, command[1:])
        if module:
            yield module
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


def _run_by(runner: _Runner, options: Command) -> tuple[str, Command]:
    """The Python module that a runner starts, or the command; both are empty where it starts none.

    :param options: the words behind the runner.
    """
    verb, index = runner.verb, 0
    while index < len(options):
        word = options[index]
        if word in runner.modules:
            return "".join(options[index + 1 : index + 2]), ()
        if word.startswith("-"):
            index += 2 if word in runner.with_value else 1
        elif runner.takes_variables and _VARIABLE.fullmatch(word):
            index += 1
        elif not verb:
            return "", options[index:]
        elif word == verb:
            verb, index = "", index + 1
        else:
            return "", ()
    return "", ()
