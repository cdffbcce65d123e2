"""Fixtures of the cluster tests."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.cluster.access import Access, Unavailable, connect
from tests.cluster.dump import dump, prune
from tests.cluster.faults import Faults
from tests.cluster.paths import cache_root
from tests.cluster.profiles import DEFAULT, PROFILES
from tests.cluster.runner import NO_CLUSTER, PROFILE_VARIABLE, TIMES_VARIABLE
from tests.cluster.smoke import SMOKE, TESTS, missing

#: Where failed tests are dumped.
DUMP_VARIABLE = "TRAINER_TEST_DUMP"
#: Seconds for a test with its fixtures, where it is not marked with another limit: on a busy machine some take minutes,
#: and what is cut off leaves faults to the next test.
_LIMIT = 900
#: What a test may be marked with.
_KNOWN = (*PROFILES, NO_CLUSTER)
_FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "profile(name): profile of the test cluster that a test needs (kubeflow)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.cluster)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LIMIT))
        if "faults" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.exclusive)
    profiles = {item: _profiles(item) for item in ours}
    profile = os.environ.get(PROFILE_VARIABLE)
    if profile is not None:
        _check(profile, PROFILE_VARIABLE)
    # Not where some tests are named, as for their second chance.
    whole = str(Path(__file__).parent) in config.args
    if profile == SMOKE and whole and (gone := missing(map(_name, ours))):
        raise pytest.UsageError(f"tests/cluster/smoke.py: there is no test {', '.join(gone)}")
    others = [item for item in ours if profile is not None and profile not in profiles[item]]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def _profiles(item: pytest.Item) -> list[str]:
    """The profiles on which a test runs: the one that it is marked with, and that of the smoke tests."""
    marker = item.get_closest_marker("profile")
    (name,) = (DEFAULT,) if marker is None else marker.args
    _check(name, item.nodeid)
    return [name, SMOKE] if _name(item) in TESTS else [name]


def _name(item: pytest.Item) -> str:
    """Of a test, below this folder."""
    return f"{item.path.relative_to(Path(__file__).parent)}::{item.name}"


def _check(profile: str, where: str) -> None:
    """Refuse a profile that does not exist: its tests would be deselected without notice."""
    if profile not in _KNOWN:
        raise pytest.UsageError(f"{where}: there is no profile {profile!r}, but {', '.join(_KNOWN)}")


def _not_here(reason: str) -> NoReturn:
    """Skip a test for which there is no cluster, unless it has to run: in CI, and where the runner started one."""
    if os.environ.get("CI") or os.environ.get(PROFILE_VARIABLE):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(scope="session")
def any_cluster() -> Access:
    """The cluster, whatever its profile."""
    try:
        return connect()
    except Unavailable as error:
        _not_here(str(error))


@pytest.fixture
def cluster(any_cluster: Access, request: pytest.FixtureRequest) -> Access:
    """The cluster, with a profile on which the test runs."""
    wanted = _profiles(request.node)
    if any_cluster.profiles.isdisjoint(wanted):
        found = ", ".join(any_cluster.profiles) or "none"
        _not_here(f"needs the profile {' or '.join(wanted)}; the cluster has {found}")
    return any_cluster


@pytest.fixture
def namespace(cluster: Access, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own. When the test fails, all that is in it is dumped before it is deleted."""
    name = f"trainer-test-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    try:
        if request.node.stash.get(_FAILED, False):
            _dump(cluster, name, f"{request.node.name}-{name}")
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def _dump(cluster: Access, namespace: str, name: str) -> None:
    chosen, own = os.environ.get(DUMP_VARIABLE), cache_root() / "dumps"
    folder = Path(chosen or own) / name
    dump(cluster, namespace, folder)
    print(f"dumped to {folder}")
    if not chosen:
        prune(own)


@pytest.fixture
def faults(cluster: Access) -> Iterator[Faults]:
    """Breaks parts of the cluster, and mends them after the test."""
    if cluster.own is None:
        pytest.skip("breaks parts of the cluster: only on the project's own")
    faults = Faults(cluster.own)
    yield faults
    faults.mend()


@pytest.fixture
def record_time() -> Any:
    """Function ``(kind, seconds)`` that puts a line into the closing table."""

    def record(kind: str, seconds: float) -> None:
        path = os.environ.get(TIMES_VARIABLE)
        if path:
            with Path(path).open("a") as file:
                file.write(json.dumps({"kind": kind, "seconds": seconds, "at": time.time()}) + "\n")

    return record
