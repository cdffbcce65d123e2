"""Backends by name: those of this provider, and one that another package brings."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_trainer_provider.cli import main
from airflow_trainer_provider.errors import BackendUnavailable, SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.hooks.backends import CLUSTER_BACKENDS, check_backend
from airflow_trainer_provider.hooks.trainer import TrainerHook
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.kinds.registry import BACKENDS
from airflow_trainer_provider.operators.links import DashboardLink
from airflow_trainer_provider.spec import parse_spec

#: Jobs as processes, in a folder for each namespace.
_MODULE = """
from pathlib import Path
from airflow_trainer_provider.job.backend import MainObject
from airflow_trainer_provider.local.backend import LocalBackend

class Acme(LocalBackend):
    name = "acme"

    def main_object(self, handle):
        return MainObject("", "team", "AcmeJob", "acmejobs.acme.example", handle.name)

def make(kubernetes_conn_id, namespace):
    return Acme(Path(__file__).parent / (namespace or ""), 0.05, None)
"""
_ENTRY_POINTS = """
[airflow_trainer_provider.backends]
acme = acme_backend:make
broken = acme_backend:nothing
local = acme_backend:make
"""


#: The installer that made this environment.
_UV = Path(sys.prefix).parent / ".bootstrap" / "bin" / "uv"
_WHEEL = {
    "acme_backend.py": _MODULE,
    "acme_backend-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme-backend\nVersion: 1.0\n",
    "acme_backend-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "acme_backend-1.0.dist-info/entry_points.txt": _ENTRY_POINTS,
    "acme_backend-1.0.dist-info/RECORD": "",
}


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A package that brings the backend ``acme``, installed from its wheel."""
    wheel, site = tmp_path / "acme_backend-1.0-py3-none-any.whl", tmp_path / "site"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in _WHEEL.items():
            file.writestr(name, text)
    options = ["--quiet", "--offline", "--no-index", "--python", sys.executable, "--target", site]
    subprocess.run([_UV, "pip", "install", *options, wheel], check=True)
    monkeypatch.syspath_prepend(str(site))


def test_the_hook_knows_the_names_of_the_clusters_backends():
    assert set(CLUSTER_BACKENDS) == set(BACKENDS)


@pytest.mark.local
@pytest.mark.usefixtures("acme")
async def test_a_backend_of_another_package_runs_jobs_under_its_name():
    job = plan_job(parse_spec({"framework": "jax", "name": "mine", "command": ["echo", "hello"]}))
    lines = []

    choice = await TrainerHook("acme", namespace="team").choose(job)
    handle = (await choice.backend.submit(job, Identity(dag_id="d", run_id="r", task_id="t"))).handle
    outcome = await TrainerHook.for_job(handle).wait(handle, emit=lines.append, reader="r", deadline=None)

    assert handle.backend == "acme"
    assert "[worker-0] hello" in lines
    assert outcome.failure is None
    assert (await TrainerHook("acme", namespace="team").get(handle.name))[1] == handle


@pytest.mark.usefixtures("acme")
def test_the_dashboard_shows_the_object_of_its_jobs(monkeypatch):
    monkeypatch.setenv("AIRFLOW__TRAINER__DASHBOARD_URL", "https://k8s.example/{namespace}/{resource}/{kind}/{name}")
    handle = JobHandle(
        name="j", uid="u", backend="acme", framework="jax", leader="worker-0", owner=1, location="anywhere"
    )

    assert DashboardLink().address(handle) == "https://k8s.example/team/acmejobs.acme.example/AcmeJob/j"


@pytest.mark.usefixtures("acme")
def test_the_command_line_takes_it_too(capsys):
    assert main(["list", "--backend", "acme", "--namespace", "empty"]) == 0
    assert capsys.readouterr().out == "No training jobs.\n"


@pytest.mark.usefixtures("acme")
async def test_a_backend_that_cannot_be_loaded_is_named_with_its_entry_point():
    with pytest.raises(BackendUnavailable, match="'broken' is registered as 'acme_backend:nothing', which cannot"):
        await TrainerHook("broken").backends()


@pytest.mark.usefixtures("acme")
async def test_no_package_replaces_a_backend_of_this_provider():
    (backend,) = await TrainerHook("local").backends()

    assert type(backend).__module__ == "airflow_trainer_provider.local.backend"


@pytest.mark.usefixtures("acme")
def test_an_unknown_name_is_refused_with_those_that_exist():
    check_backend("backend", "acme")
    with pytest.raises(SpecError, match=r"backend: got 'acmee'.*native.*acme"):
        check_backend("backend", "acmee")
    with pytest.raises(SpecError, match="backend: got 'auto'"):
        check_backend("backend", "auto", auto=False)
