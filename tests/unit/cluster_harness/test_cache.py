"""What lies in the cache for long: other checkouts use it too."""

from __future__ import annotations

import os
import time

import pytest

from tests.cluster import debian, images, pins
from tests.cluster.images import Images
from tests.cluster.shell import CommandFailed


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "airflow-trainer-provider"


def _age(path, days):
    then = time.time() - days * 24 * 3600
    os.utime(path, (then, then))


def test_archives_of_other_pins_go_once_they_are_old_and_what_a_killed_build_left_goes_at_once(cache):
    folder = cache / "images"
    (folder / "tmp" / "usr").mkdir(parents=True)
    for name in ("tiny-0a.tar", "kubectl-delivery-0b.tar", "worker-0c.tar", "worker-0d.partial", "worker-0d.layer"):
        (folder / name).touch()
    _age(folder / "tiny-0a.tar", days=8)
    _age(folder / "kubectl-delivery-0b.tar", days=6)

    images._prune(folder)

    assert sorted(path.name for path in folder.iterdir()) == ["kubectl-delivery-0b.tar", "worker-0c.tar"]
    assert Images.cached(None) == {"trainer.test/kubectl-delivery:0b", "trainer.test/worker:0c"}


def test_packages_are_there_once_all_are_unpacked(cache, monkeypatch):
    packages = debian.Packages(pins.load())
    names, broken = list(packages.pins.unpacked), []

    def run(*argv, cwd=None):
        if argv[0] == "apt-get" and cwd:
            for name in names:
                (cwd / f"{name}.deb").touch()
        if argv[0] == "dpkg-deb":
            archive, target = argv[2:]
            if archive.stem in broken:
                raise CommandFailed("no space left")
            program = target / packages.pins.unpacked[archive.stem]
            program.parent.mkdir(parents=True, exist_ok=True)
            program.touch()

    monkeypatch.setattr(debian, "run", run)
    monkeypatch.setattr(debian, "which", lambda program: program)
    broken.append(names[-1])
    with pytest.raises(CommandFailed):
        packages.ensure()
    assert packages.missing() == names
    assert list((cache / "debian").iterdir()) == []
    broken.clear()

    packages.ensure()

    assert packages.missing() == []
