"""The control group of the cluster."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.cluster import cgroups


@pytest.fixture
def mount(tmp_path, monkeypatch):
    """Two hierarchies, as on a machine with one for each controller."""
    for name in ("cpu", "memory"):
        (tmp_path / name / cgroups.NAME / "pods").mkdir(parents=True)
        (tmp_path / name / "cgroup.procs").touch()
    monkeypatch.setattr(cgroups, "_MOUNT", tmp_path)
    return tmp_path


def test_the_pods_weigh_more_than_one_process(mount):
    shares = mount / "cpu" / cgroups.NAME / "cpu.shares"
    shares.write_text("1024")

    cgroups.create()

    assert shares.read_text() == "4096"
    assert not (mount / "memory" / cgroups.NAME / "cpu.shares").exists()


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EPERM])
def test_a_group_that_is_still_in_use_is_removed_later(mount, monkeypatch, code):
    rmdir, errors = Path.rmdir, [OSError(code, "not now")]

    def fails_once(folder):
        if errors:
            raise errors.pop()
        rmdir(folder)

    monkeypatch.setattr(Path, "rmdir", fails_once)
    if code == errno.EPERM:
        with pytest.raises(OSError, match="not now"):
            cgroups.remove()
        return

    cgroups.remove()

    assert not list(mount.glob(f"*/{cgroups.NAME}"))
