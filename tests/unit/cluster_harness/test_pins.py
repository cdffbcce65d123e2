"""Pins, and the cache keys made of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.cluster import build, coscheduler, pins


@pytest.fixture
def kubernetes():
    return pins.load().modules["kubernetes"]


def test_every_version_is_exact():
    loaded = pins.load()
    for module in loaded.modules.values():
        assert re.fullmatch(r"v\d+\.\d+\.\d+(-devel|\+incompatible)?", module.version), module
    for wheel in (*loaded.worker.wheels, *loaded.tensorboard):
        assert re.fullmatch(r"[\w.-]+==[\w.]+", wheel), wheel


def test_no_two_modules_make_one_binary():
    names = [name for module in pins.load().modules.values() for name in module.binaries]
    assert len(names) == len(set(names))


def test_staging_version_goes_with_kubernetes(kubernetes):
    assert kubernetes.staging.removeprefix("v0.") == kubernetes.version.removeprefix("v1.")


def test_key_follows_version_and_toolchain(kubernetes):
    key = kubernetes.key("go1.26")
    assert key == kubernetes.key("go1.26")
    assert key != kubernetes.key("go1.27")
    assert key != replace(kubernetes, version="v1.33.0").key("go1.26")


def test_package_of_binary_at_root_of_module(kubernetes):
    assert kubernetes.package("kubelet") == "k8s.io/kubernetes/cmd/kubelet"
    assert replace(kubernetes, binaries={"it": "."}).package("it") == "k8s.io/kubernetes"


def test_digest_is_of_values():
    assert pins.digest({"a": 1, "b": 2}) == pins.digest({"b": 2, "a": 1})
    assert pins.digest({"a": 1}) != pins.digest({"a": 2})


def test_go_mod_replaces_staging_modules(kubernetes):
    text = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/other => example.test/other v1.0.0\n)\n"
    staging = build.staging_modules(text)
    assert staging == ["k8s.io/api"]
    lines = build.go_mod(kubernetes, "1.26.0", staging).splitlines()
    assert f"require k8s.io/kubernetes {kubernetes.version}" in lines
    assert f"replace k8s.io/api => k8s.io/api {kubernetes.staging}" in lines


def test_the_second_scheduler_selects_no_other_versions_than_kubernetes(kubernetes, tmp_path):
    modules = pins.load().modules
    source = tmp_path / "source"
    source.mkdir()
    (source / "go.mod").write_text("require k8s.io/api v0.99.0\n")
    source.chmod(0o555)
    work = tmp_path / "work"
    work.mkdir()
    copies = {name: (modules[name].path, source) for name in coscheduler.COPIED}
    required = [modules[name] for name in coscheduler.REQUIRED]

    package = coscheduler.prepare(work, build.go_mod(kubernetes, "1.26.0", ["k8s.io/api"]), copies, required)

    text = (work / "go.mod").read_text()
    assert f"require k8s.io/kubernetes {kubernetes.version}\n" in text
    assert f"require github.com/patrickmn/go-cache {modules['go-cache'].version}\n" in text
    assert "replace sigs.k8s.io/scheduler-plugins => ./scheduler-plugins\n" in text
    assert (work / "scheduler-plugins" / "go.mod").read_text() == "module sigs.k8s.io/scheduler-plugins\n\ngo 1.24.0\n"
    assert (work / package.replace("sigs.k8s.io/", "") / "main.go").exists()


def test_only_kubernetes_is_given_its_version(kubernetes):
    assert f"gitVersion={kubernetes.version}" in build.ldflags(kubernetes)
    assert build.ldflags(pins.load().modules["kueue"]) == "-s -w"
