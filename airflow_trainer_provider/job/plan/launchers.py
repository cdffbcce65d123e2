"""Recognises commands that begin with a launcher: a program that starts the training's processes itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from airflow_trainer_provider.job.plan.framework import Command, Framework

#: Launchers that belong to no framework here, as programs and as ``python -m`` modules. They take the rendezvous, and
#: the number of processes and nodes, from their own options, and not from the variables of a framework's launcher.
_OTHERS = frozenset(
    {
        "accelerate",
        "accelerate-launch",
        "accelerate.commands.accelerate_cli",
        "accelerate.commands.launch",
        "axolotl",
        "axolotl.cli.main",
        "colossalai",
        "composer",
        "composer.cli.launcher",
        "deepspeed",
        "deepspeed.launcher.runner",
        "fabric",
        "horovod.runner",
        "horovodrun",
        "lightning",
        "lightning.fabric.cli",
        "llamafactory-cli",
        "mpiexec",
        "mpirun",
        "prterun",
        "srun",
        "torchtune._cli.tune",
        "tune",
    }
)
#: Options of Python: flags and ``-m``, in one word or before the module, and those that take the next word.
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvx]*m(?P<name>.*)")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def begins_with_launcher(command: Command, framework: Framework) -> bool:
    """Whether a command begins with any launcher; only its first words are looked at.

    :param command: what the user wrote.
    :param framework: of the job.
    """
    return not framework.launchers.isdisjoint(programs_of(command)) or other_launcher(command, framework) is not None


def other_launcher(command: Command, framework: Framework) -> str | None:
    """The launcher that a command begins with, if that is not the framework's own.

    :param command: what the user wrote.
    :param framework: of the job.
    """
    return next((name for name in programs_of(command) if name in _OTHERS - framework.launchers), None)


def programs_of(command: Command) -> Iterator[str]:
    """What a command runs: its program, and the module or script that a Python interpreter runs.

    :param command: what the user wrote.
    """
    if not command:
        return
    program = PurePath(command[0]).name
    yield program
    if not program.startswith("python"):
        return
    words = iter(command[1:])
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
