"""Recognises commands that begin with a launcher: a program that starts the training's processes itself."""

from __future__ import annotations

from collections.abc import Set

from airflow_trainer_provider.job.plan.programs import Command, programs_of

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
        "trl",
        "trl.cli",
        "tune",
    }
)


def begins_with_launcher(command: Command, own: Set[str]) -> bool:
    """Whether a command begins with any launcher; only its first words are examined.

    :param command: what the user wrote.
    :param own: the launchers of the job's framework.
    """
    return any(name in own | _OTHERS for name in programs_of(command))


def other_launcher(command: Command, own: Set[str]) -> str | None:
    """The launcher that a command begins with, if that is not the framework's own.

    :param command: what the user wrote.
    :param own: the launchers of the job's framework.
    """
    return next((name for name in programs_of(command) if name in _OTHERS - own), None)
