"""TensorBoard, which no image has: unpacked into the cache, and mounted into the pods that run it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.paths import cache_root
from tests.cluster.pins import Pins, digest
from tests.cluster.worker import install_wheels

#: Where the pods have it, for PYTHONPATH.
MOUNT_PATH = "/opt/tensorboard"


def folder(pins: Pins) -> Path:
    """The folder with TensorBoard's packages.

    :param pins: versions.
    """
    return cache_root() / "tensorboard" / digest(pins.tensorboard, pins.worker.python)


def build(pins: Pins) -> None:
    """Unpack it, unless it is there.

    :param pins: versions.
    """
    target = folder(pins)
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    install_wheels(pins.tensorboard, pins.worker.python, partial, target.with_suffix(".pip.log"))
    # With this module TensorBoard does not import the TensorFlow of the worker image, which takes long.
    (partial / "tensorboard" / "compat" / "notf.py").touch()
    partial.rename(target)
