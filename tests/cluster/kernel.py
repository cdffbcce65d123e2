"""Kernel settings that a kubelet changes for the whole machine: kept before, put back after."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

_PROC_SYS = Path("/proc/sys")
_CHANGED_BY_KUBELET = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class KernelSettings:
    """The machine-wide settings in a file."""

    @staticmethod
    def save(path: Path) -> None:
        """Write down the current values."""
        values = {name: (_PROC_SYS / name).read_text().strip() for name in _CHANGED_BY_KUBELET if _exists(name)}
        path.write_text(json.dumps(values))

    @staticmethod
    def restore(path: Path) -> None:
        """Put back the values of the file, if there is one."""
        with suppress(FileNotFoundError):
            for name, value in json.loads(path.read_text()).items():
                (_PROC_SYS / name).write_text(value)


def _exists(name: str) -> bool:
    return (_PROC_SYS / name).exists()
