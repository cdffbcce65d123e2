"""What is left of a failed test is written in a bounded time, and only the newest of it is kept."""

from __future__ import annotations

import os
import time

from tests.cluster import dump
from tests.cluster.access import Access
from tests.cluster.shell import CommandFailed


class _Kubectl:
    """One that answers some questions, and takes its time."""

    def __init__(self, seconds=0.0):
        self.seconds, self.timeouts = seconds, []

    def __call__(self, *argv, timeout):
        self.timeouts.append(timeout)
        time.sleep(min(self.seconds, timeout))
        if self.seconds > timeout or "--previous" in argv:
            raise CommandFailed("no")
        if argv[:2] == ("get", "pods") and "--no-headers" in argv:
            return "\nns      train-0\njobset-system   manager\n" if "--all-namespaces" in argv else "ns   train-0\n"
        return "jobs.batch\nleases.coordination.k8s.io\n" if argv[0] == "api-resources" else " ".join(argv)


def test_a_dump_has_what_the_cluster_answers(tmp_path):
    dump.dump(Access(_Kubectl(), frozenset(), None), "ns", tmp_path)

    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    core = {f"{kind}.yaml" for kind in ("pods", "services", "configmaps", "events", "jobs.batch")}
    assert files == {"events.txt", "logs/train-0.log", "controllers/manager.log", *core}


def test_a_dump_of_a_cluster_that_hangs_ends_in_time(tmp_path):
    kubectl = _Kubectl(seconds=0.2)

    dump.dump(Access(kubectl, frozenset(), None), "ns", tmp_path, seconds=0.5)

    assert len(kubectl.timeouts) <= 3
    assert max(kubectl.timeouts) <= 0.5
    assert (tmp_path / "events.txt").exists()


def test_the_newest_dumps_are_kept(tmp_path):
    for days in range(12):
        folder = tmp_path / f"{days}"
        folder.mkdir()
        (folder / "events.txt").touch()
        then = time.time() - days * 24 * 3600
        os.utime(folder, (then, then))

    dump.prune(tmp_path)

    assert sorted(int(path.name) for path in tmp_path.iterdir()) == list(range(10))
