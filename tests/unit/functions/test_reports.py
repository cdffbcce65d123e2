"""What a function reports of its progress: by a call of this package, and by what speaks Trainer's protocol."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from airflow_trainer_provider.job.progress.report import Report, read_json_line
from tests.unit.functions.conftest import python_of

HEAD = """\
import json, os, stat, sys, time, urllib.request
from pathlib import Path

def train_job(function):
    return function

def post(percent, metrics=(), url=None, token=None):
    # As Hugging Face's callback does it.
    found = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
    token = token or open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read().strip()
    status = {"progressPercentage": percent, "lastUpdatedTime": "2026-01-01T00:00:00Z"}
    status["metrics"] = [{"name": name, "value": str(value)} for name, value in metrics]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps({"trainerStatus": status}).encode()
    request = urllib.request.Request(url or found, data=data, headers=headers, method="POST")
    return urllib.request.urlopen(request, timeout=60).status

"""


def _reports(ended):
    return [found for line in ended.out.splitlines() if (found := read_json_line(line))]


def _function(body, top=""):
    return f"{HEAD}{top}\n@train_job\ndef f():\n    " + body.replace("\n", "\n    ") + "\n"


#: How a function may import what it reports by -> the top of the file, and the function's first line.
IMPORTS = {
    "at the top": ("from airflow_trainer_provider.training import report", "pass"),
    "under another name": ("from airflow_trainer_provider.training import report as say\nreport = say", "pass"),
    "as a module": ("import airflow_trainer_provider.training as t", "report = t.report"),
    "by its full name": (
        "import airflow_trainer_provider.training",
        "report = airflow_trainer_provider.training.report",
    ),
    "from the package": ("from airflow_trainer_provider import training", "report = training.report"),
    "in a list": (
        "from airflow_trainer_provider.training import report\nREPORTS = []\nREPORTS.append(report)",
        "report = REPORTS[0]",
    ),
    "within": ("", "from airflow_trainer_provider.training import report"),
    "within, as a module": ("", "import airflow_trainer_provider.training as t; report = t.report"),
}


def _without_the_package():
    """A Python that this package is not installed for."""
    return str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))


@pytest.mark.parametrize(("top", "first"), IMPORTS.values(), ids=IMPORTS)
def test_a_function_reports_where_the_package_is_not_installed(top, first, dag_file, run):
    body = f"""{first}
report(step=3, total_steps=6, metrics={{'loss': 0.5}})
return getattr(sys.modules["airflow_trainer_provider"], "__version__", None)"""

    ended = run(dag_file(_function(body, top)).f, python=_without_the_package())

    assert (ended.code, ended.result["value"]) == (0, None), ended.out
    assert _reports(ended) == [Report(step=3, total_steps=6, metrics={"loss": 0.5})]


def test_another_version_of_the_package_in_the_image_does_not_matter(dag_file, run, tmp_path):
    package = tmp_path / "older" / "airflow_trainer_provider"
    (package / "training").mkdir(parents=True)
    (package / "__init__.py").write_text("OLDER = True\n")
    (package / "training" / "__init__.py").write_text("def report(step): raise ValueError(step)\n")
    source = _function(
        "report(step=3)\nreturn sys.modules['airflow_trainer_provider'].OLDER",
        "from airflow_trainer_provider.training import report",
    )

    ended = run(dag_file(source).f, env={"PYTHONPATH": str(tmp_path / "older")}, python=_without_the_package())

    assert ended.result["value"] is True, ended.out
    assert _reports(ended) == [Report(step=3)]


def test_processes_that_the_function_starts_report_too(dag_file, run):
    top = """
from airflow_trainer_provider.training import report

def child(url):
    report(step=2)
    assert os.environ["KUBEFLOW_TRAINER_SERVER_URL"] == url
    post(50)
"""
    body = """import multiprocessing
url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
codes = []
for kind in ("spawn", "fork"):
    process = multiprocessing.get_context(kind).Process(target=child, args=[url])
    process.start()
    process.join()
    codes.append(process.exitcode)
return codes"""

    ended = run(dag_file(_function(body, top)).f)

    assert ended.result["value"] == [0, 0], ended.out
    assert _reports(ended) == [Report(step=2), Report(percent=50)] * 2


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.13"])
def test_what_speaks_trainers_protocol_reports(version, dag_file, run, tmp_path):
    body = """token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"])
status = post(0, {"total_steps": 8}.items())
from airflow_trainer_provider.training import report
report(step=1)
post(25, {"loss": 0.5, "current_step": 2, "total_steps": 8}.items())
try:
    post(50, token="another")
except urllib.error.HTTPError as error:
    refused = error.code
return [status, refused, stat.S_IMODE(token.stat().st_mode), str(token)]"""

    ended = run(dag_file(_function(body)).f, python=python_of(version))

    status, refused, mode, token = ended.result["value"]
    assert (status, refused, mode) == (200, 403, 0o600)
    assert _reports(ended) == [
        Report(percent=0, total_steps=8),
        Report(step=1),
        Report(step=2, total_steps=8, percent=25, metrics={"loss": 0.5}),
    ]
    # The folder of the job here; and gone with the process.
    assert Path(token).is_relative_to(tmp_path)
    assert not Path(token).exists()


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"RANK": "1"}, None),
        ({"RANK": "1", "KUBEFLOW_TRAINER_SERVER_URL": "https://trainer/"}, "https://trainer/"),
        ({"RANK": "0", "KUBEFLOW_TRAINER_SERVER_URL": "https://trainer/"}, "https://trainer/"),
        ({"RANK": "0", "KUBEFLOW_TRAINER_SERVER_URL": ""}, ""),
    ],
)
def test_other_ranks_and_pods_of_trainer_have_no_address_of_ours(env, found, dag_file, run):
    names = "['KUBEFLOW_TRAINER_SERVER_URL', 'KUBEFLOW_TRAINER_SERVER_TOKEN']"
    source = _function(f"print(json.dumps([os.environ.get(name) for name in {names}]))")

    ended = run(dag_file(source).f, env=env)

    assert json.loads(ended.out) == [found, None]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, [None, None]),
        ({"HTTP_PROXY": "http://proxy.invalid:1"}, ["127.0.0.1", "127.0.0.1"]),
        ({"http_proxy": "http://proxy.invalid:1", "NO_PROXY": "a,b"}, ["a,b,127.0.0.1", "a,b,127.0.0.1"]),
        ({"all_proxy": "http://proxy.invalid:1", "no_proxy": "a", "NO_PROXY": "b"}, ["a,127.0.0.1", "b,127.0.0.1"]),
        ({"http_proxy": "http://proxy.invalid:1", "no_proxy": "*"}, ["*", None]),
    ],
)
def test_no_proxy_is_asked_for_the_loopback(env, expected, dag_file, run):
    body = "post(1)\nreturn [os.environ.get(name) for name in ('no_proxy', 'NO_PROXY')]"

    ended = run(dag_file(_function(body)).f, env=env)

    assert ended.result["value"] == expected, ended.out
    assert _reports(ended) == [Report(percent=1)]


@pytest.mark.parametrize("end", ["sys.exit(3)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_the_process_ends_whatever_is_connected(end, dag_file, run):
    body = f"""import socket
address = os.environ["KUBEFLOW_TRAINER_SERVER_URL"].split("/")[2].split(":")
kept = socket.create_connection((address[0], int(address[1])))
post(1)
{end}"""

    ended = run(dag_file(_function(body)).f)

    assert ended.code == (-9 if "kill" in end else 3)
    assert _reports(ended) == [Report(percent=1)]


def test_a_training_goes_on_where_nothing_can_listen(dag_file, run, tmp_path):
    """Neither the folder of the job nor a temporary one can be written: there is no place for the token."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import tempfile\n"
        "def mkstemp(*args, **kwargs):\n"
        "    raise PermissionError('no temporary folder')\n"
        "tempfile.mkstemp = mkstemp\n"
    )

    ended = run(
        dag_file(_function("return os.environ.get('KUBEFLOW_TRAINER_SERVER_URL')")).f,
        env={"PYTHONPATH": str(broken)},
    )

    assert (ended.code, ended.result["value"]) == (0, None)
    assert ended.out == "reports by Kubeflow Trainer's protocol are not read: no temporary folder\n"


def test_a_forked_process_leaves_the_token_in_place(dag_file, run):
    body = """import atexit
child = os.fork()
if child == 0:
    atexit._run_exitfuncs()
    os._exit(0)
os.waitpid(child, 0)
return post(50)"""

    ended = run(dag_file(_function(body)).f)

    assert ended.code == 0, ended.out
    assert ended.result["value"] == 200, ended.out
    assert _reports(ended) == [Report(percent=50)]
