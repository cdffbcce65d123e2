"""The command line: what it takes, prints and exits with. What it does to a real cluster: tests/cluster/test_cli.py."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml

from airflow_trainer_provider.cli import backends, main, text
from airflow_trainer_provider.cli.arguments import make_parser
from airflow_trainer_provider.cluster.cluster import Cluster
from airflow_trainer_provider.cluster.operations import suspension, wait
from airflow_trainer_provider.kinds.base import EVENTS
from airflow_trainer_provider.kinds.objects import labels
from airflow_trainer_provider.kinds.registry import KINDS
from tests.fakes.jobs import add_job, add_pod, ours, with_condition
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

JAXJOBS = KINDS["jaxjob"].resource.plural
COMMANDS = ("render", "submit", "list", "describe", "logs", "suspend", "resume", "delete")


@pytest.fixture
def cluster(monkeypatch):
    """A cluster."""
    for module in (wait, suspension):
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0)
    with FakeKubernetes().in_a_thread() as api:
        yield api


@pytest.fixture
def kubeconfig(cluster, tmp_path):
    """The file that leads to it."""
    file = tmp_path / "kubeconfig"
    file.write_text(cluster.kubeconfig())
    return str(file)


@pytest.fixture
def run(kubeconfig, capsys, monkeypatch):
    """Function (words) -> exit code, standard output, standard error."""
    opened, closed = [], []

    class Closing(Cluster):
        async def close(self):
            closed.append(self)
            await super().close()

    def connect(connection, *, outage_budget):
        assert outage_budget < 60
        opened.append(Closing(connection, outage_budget=outage_budget))
        return opened[-1]

    def run(*words):
        opened.clear()
        closed.clear()
        code = main([words[0], "--kubeconfig", kubeconfig, "--namespace", NAMESPACE, *words[1:]])
        printed = capsys.readouterr()
        assert closed == opened
        return code, printed.out, printed.err

    monkeypatch.setattr(backends, "Cluster", connect)
    return run


def _spec(tmp_path, **fields):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"framework": "jax", "image": "i:1", "command": ["true"], **fields}))
    return str(file)


def test_without_jobs_the_list_says_so(run):
    assert run("list") == (0, "No training jobs.\n", "")
    assert run("list", "-o", "json") == (0, "[]\n", "")


def test_the_list_shows_ours_and_others(run, cluster):
    add_job(cluster, "jaxjob", "ours", metadata={**ours("ours"), "creationTimestamp": "2026-11-21T06:00:00Z"})
    add_pod(cluster, "ours")
    add_job(cluster, "trainjob", "theirs")

    code, out, _ = run("list")

    heading, first, second = (line.split() for line in out.splitlines())
    assert code == 0
    assert heading == ["NAME", "KIND", "PHASE", "READY", "AGE", "DAG", "TASK", "RUN", "TRY"]
    assert (first[:4], first[5:]) == (["ours", "jaxjob", "running", "1/1"], ["mnist", "train[2]", "monday", "3"])
    assert (second[:4], second[5:]) == (["theirs", "trainjob", "queued", "0/1"], ["-"] * 4)


def test_the_list_can_be_of_one_backend_and_for_programs(run, cluster):
    add_job(cluster, "jaxjob", "j", metadata=ours("j"))
    add_job(cluster, "trainjob", "t")

    _, out, _ = run("list", "--backend", "training-operator", "-o", "json")

    (job,) = json.loads(out)
    assert (job["name"], job["kind"], job["task"]["run_id"]) == ("j", "jaxjob", "monday")
    assert job["ready"] == {"running": 0, "of": 1}


def test_a_job_is_described(run, cluster):
    condition = {"type": "Running", "status": "True", "reason": "JAXJobRunning", "message": "it is\nrunning"}
    add_job(cluster, "jaxjob", "j", metadata=ours("j"), status={"conditions": [condition]})
    add_pod(cluster, "j")

    code, out, _ = run("describe", "j")

    assert code == 0
    assert "Task:       train[2] of DAG mnist, run monday, try 3\n" in out
    assert "Phase:      running\n" in out
    assert "  worker-0  -     Running  -     0\n" in out
    assert "  Running  True  JAXJobRunning  it is running" in out
    assert "Verdict" not in out
    assert json.loads(run("describe", "j", "-o", "json")[1])["status"]["phase"] == "running"


def test_text_from_the_cluster_is_printed_without_controls_and_secrets(run, cluster):
    """Webhooks write messages, and everybody with the right to patch a job writes annotations."""
    evil = 'refused \x1b]0;title\x07\x9b2J\u202e env[0].value: Invalid value: "S3cret7Kx92value" http://u:hunter2@h '
    evil += "hunter2-x"
    identity = json.dumps({"dag_id": "d\x1b[2J", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1})
    condition = {"type": "Running", "status": "True", "reason": "R\x1bc", "message": evil}
    metadata = ours("j", **{labels.IDENTITY: identity})
    main = add_job(cluster, "jaxjob", "j", metadata=metadata, status={"conditions": [condition]})
    waiting = {"waiting": {"reason": "CreateContainerError", "message": evil}}
    env = [{"name": "DB_PASSWORD", "value": "hunter2-x"}]
    add_pod(cluster, "j", phase="Pending", state=waiting, env=env)
    involved = {"kind": "JAXJob", "name": main["metadata"]["name"]}
    cluster.add(EVENTS, "e", involvedObject=involved, type="Warning", reason="Failed", message=evil)

    printed = [run(*words)[1] for words in (("describe", "j"), ("list",))]
    programs = [json.loads(run(*words)[1]) for words in (("describe", "j", "-o", "json"), ("list", "-o", "json"))]

    for text_ in printed:
        assert text_.replace("\n", "").isprintable()
    assert 'refused  env[0].value: Invalid value: "***" http://u:***@h ***' in printed[0]
    assert "task t of DAG d, run r" in printed[0].replace("Task:       t of", "task t of")
    for text_ in (*printed, *map(str, programs)):
        assert "S3cret7Kx92value" not in text_
        assert "hunter2" not in text_
    (warning,), (condition,) = programs[0]["warnings"], programs[0]["conditions"]
    assert warning["message"].isprintable()
    assert condition["message"].isprintable()


def test_the_logs_of_libraries_are_printed_without_secrets(run, cluster, monkeypatch, capsys):
    async def jobs(*_):
        logging.getLogger("some.library").warning("no way through %s\x1b[2J", "http://u:hunter2@proxy:1")
        return []

    monkeypatch.setattr("airflow_trainer_provider.cluster.describe.jobs", jobs)
    # As in a process of its own.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    assert run("list", "--backend", "native")[2] == "WARNING: no way through http://u:***@proxy:1\n"


def test_a_file_that_cannot_be_read_is_not_quoted(run, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("env:\n  DB_PASSWORD: hunter2-x: y\n")

    code, _, err = run("render", str(file))

    assert code == 2
    assert "line 2, column 25: mapping values are not allowed here" in err
    assert "hunter2" not in err


def test_the_verdict_on_a_failed_job_is_part_of_its_description(run, cluster):
    message = "JAXJob j has failed because it was active longer than specified deadline"
    add_job(cluster, "jaxjob", "j", status=with_condition("Failed", message=message))

    code, out, _ = run("describe", "j")

    assert code == 0
    assert "Verdict:\n  Training job j failed: DeadlineExceeded" in out
    assert "Retry can help: unknown." in out


def test_a_job_is_suspended_resumed_and_deleted(run, cluster):
    add_job(cluster, "jaxjob", "j", metadata=ours("j"))

    assert run("suspend", "j")[:2] == (0, "Suspended jaxjob j in namespace team.\n")
    assert run("suspend", "j")[1] == "The jaxjob j in namespace team was suspended already.\n"
    assert run("resume", "j")[1] == "Resumed jaxjob j in namespace team.\n"
    assert run("resume", "j")[1] == "The jaxjob j in namespace team is not suspended.\n"
    assert run("delete", "j")[1] == "Deleted jaxjob j in namespace team.\n"

    annotations = [what["metadata"]["annotations"] for _, what in cluster.patches if "metadata" in what]
    assert [each[labels.CANCELLED].split(" by ")[0] for each in annotations] == ["deleted"]
    assert annotations[0][labels.CANCELLED].endswith(" on the command line")


@pytest.mark.parametrize("command", ["describe", "logs", "suspend", "resume", "delete"])
def test_a_job_that_there_is_not(run, command):
    code, out, err = run(command, "j")

    assert (code, out) == (2, "")
    assert err.startswith("error: There is no training job called j in namespace team")


def test_an_error_with_the_cluster_is_reported_in_one_line(run, cluster):
    cluster.answer(403, "GET", "/trainjobs$", message="no right to list trainjobs")

    code, out, err = run("list")

    assert (code, out) == (2, "")
    assert err.startswith("error: GET /apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs: 403 Forbidden: no")
    assert err.count("\n") == 1


def test_a_replica_that_there_is_not(run, cluster):
    add_job(cluster, "jaxjob", "j")

    assert run("logs", "j", "--replica", "worker-7")[2] == (
        "error: Training job j has no replica worker-7: it has worker-0.\n"
    )
    code, _, err = run("logs", "j", "--follow", "--previous")
    assert (code, "one of the two" in err) == (2, True)


@pytest.mark.parametrize("backend", ["native", "training-operator", "trainer"])
def test_a_spec_is_rendered_without_a_cluster(run, cluster, tmp_path, backend):
    code, out, _ = run("render", _spec(tmp_path, name="mnist"), "--backend", backend)

    assert code == 0
    documents = list(yaml.safe_load_all(out))
    assert all(each["metadata"]["name"].startswith("mnist-") for each in documents)
    assert {each["metadata"]["namespace"] for each in documents} == {NAMESPACE}
    assert cluster.requests == []


def test_which_backend_was_taken_is_shown_beside_the_objects(run, cluster, tmp_path):
    cluster.missing.add("trainjobs")

    code, out, err = run("render", _spec(tmp_path))

    assert code == 0
    assert yaml.safe_load(out)["kind"] == "JAXJob"
    assert err.startswith("Backend auto: took training-operator: JAXJob is installed")


def test_a_manifest_is_rendered_as_it_would_be_submitted(run, tmp_path):
    file = tmp_path / "manifest.json"
    worker = {"replicas": 1, "template": {"spec": {"containers": [{"name": "jax", "image": "i:1", "futureField": 1}]}}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": "mine", "labels": {"team": "a"}},
        "spec": {"jaxReplicaSpecs": {"Worker": worker}},
    }
    file.write_text(json.dumps(manifest))

    code, out, _ = run("render", str(file))

    shown = yaml.safe_load(out)
    assert code == 0
    assert shown["spec"] == manifest["spec"]
    assert shown["metadata"]["labels"]["team"] == "a"
    assert shown["metadata"]["labels"][labels.MANAGED_BY] == labels.PREFIX
    code, _, err = run("render", str(file), "--backend", "native")
    assert (code, "allowed: training-operator" in err) == (2, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("framework: pytroch", "Did you mean 'pytorch'?"),
        ("- 1", "a mapping: the fields of a job, or a Kubernetes manifest"),
        ("a: [", "one YAML or JSON document"),
        ("apiVersion: v1\nkind: Service\nspec: {a: 1}", "allowed: TrainJob (trainer.kubeflow.org/v1alpha1)"),
        ("framework: jax\nimage: i\nqueue: q", "queue"),
        (None, "No such file"),
    ],
)
@pytest.mark.parametrize("command", ["render", "submit"])
def test_a_file_that_holds_no_job(run, cluster, tmp_path, command, content, message):
    file = tmp_path / "job.yaml"
    if content is not None:
        file.write_text(content)

    code, out, err = run(command, str(file))

    assert (code, out) == (2, "")
    assert message in err
    assert cluster.writes == []


def test_the_job_can_come_from_standard_input(run, tmp_path, monkeypatch):
    with Path(_spec(tmp_path)).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run("render", "-", "--backend", "native")[0] == 0


def test_the_way_to_the_cluster(cluster, kubeconfig, capsys):
    way = ["list", "--kubeconfig", kubeconfig, "--namespace", NAMESPACE]

    assert main([*way, "--context", "x"]) == 0
    assert main([*way, "--context", "lab"]) == 2
    assert "lab" in capsys.readouterr().err


def test_the_namespace_of_a_kubeconfigs_context_is_not_looked_at(cluster, kubeconfig, tmp_path, capsys):
    document = yaml.safe_load(Path(kubeconfig).read_text())
    for each in document["contexts"]:
        each["context"]["namespace"] = NAMESPACE
    (tmp_path / "other").write_text(yaml.safe_dump(document))
    add_job(cluster, "jaxjob", "j")

    assert main(["list", "--kubeconfig", str(tmp_path / "other")]) == 0
    assert "No training jobs." in capsys.readouterr().out


def test_a_connection_of_airflows(cluster, monkeypatch, capsys):
    extra = {"kube_config": cluster.kubeconfig(), "namespace": NAMESPACE}
    monkeypatch.setenv("AIRFLOW_CONN_LAB", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    add_job(cluster, "jaxjob", "j")

    assert main(["list", "--conn-id", "lab"]) == 0
    assert "jaxjob" in capsys.readouterr().out
    assert main(["list", "--conn-id", "lab", "--namespace", "elsewhere"]) == 0
    assert "No training jobs." in capsys.readouterr().out
    assert main(["list", "--conn-id", "nowhere"]) == 2
    assert "has no connection 'nowhere'" in capsys.readouterr().err
    assert main(["list", "--conn-id", "lab", "--context", "c"]) == 2
    assert "drop --kubeconfig and --context, or --conn-id" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["train"], ["list", "--backend", "slurm"], ["logs", "j", "--tail", "0"]])
def test_a_wrong_command_line(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)

    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as caught:
        make_parser().parse_args([command, "--help"])

    assert caught.value.code == 0
    assert "--kubeconfig" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "age"), [(-3, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (200_000, "2d")]
)
def test_an_age_changes_to_the_next_unit_at_two_of_it(seconds, age):
    now = datetime(2026, 11, 21, tzinfo=timezone.utc)

    assert text.age(now - timedelta(seconds=seconds), now) == age


@pytest.fixture
def local(tmp_path, monkeypatch, capsys):
    """Function (words) -> exit code, standard output, standard error; jobs are in a folder of the test's own."""
    monkeypatch.setenv("AIRFLOW__TRAINER__LOCAL_ROOT", str(tmp_path / "jobs"))

    def run(*words):
        code = main([*words, "--backend", "local"])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.local
def test_jobs_of_the_local_backend(local, tmp_path):
    script = "import os, time; print('hello', flush=True); time.sleep(300 if os.environ['LONG'] else 0)"
    fields = {"command": [sys.executable, "-c", script], "num_nodes": 2, "image": None}
    code, out, _ = local("submit", _spec(tmp_path, **fields, env={"LONG": ""}), "--wait")
    handle, *lines, summary = out.splitlines()
    assert code == 0
    assert sorted(line for line in lines if line.startswith("[")) == ["[worker-0] hello", "[worker-1] hello"]
    assert json.loads(summary)["phase"] == "succeeded"
    name = json.loads(handle)["name"]

    assert local("logs", name, "--replica", "worker-1")[:2] == (0, "[worker-1] hello\n")
    assert local("suspend", name)[0] == 2
    assert "whose jobs cannot be suspended" in local("suspend", name)[2]

    code, out, _ = local("submit", _spec(tmp_path, **fields, env={"LONG": "1"}))
    other = json.loads(out)["name"]
    assert local("delete", other)[:2] == (0, f"Ended training job {other}; its logs stay.\n")
    rows = {line.split()[0]: line.split()[2] for line in local("list")[1].splitlines()[1:]}
    assert rows == {name: "succeeded", other: "cancelled"}
    assert "Verdict:" in local("describe", other)[1]


@pytest.mark.local
@pytest.mark.parametrize(("words", "named"), [(["--previous"], "previous"), (["--follow", "--tail", "1"], "tail")])
def test_what_only_the_logs_of_a_cluster_have_is_refused(local, tmp_path, words, named):
    script = _spec(tmp_path, command=[sys.executable, "-c", "pass"], image=None)
    name = json.loads(local("submit", script, "--wait")[1].splitlines()[0])["name"]

    code, _, error = local("logs", name, *words)

    assert (code, f"{named}: got" in error) == (2, True), error


@pytest.mark.local
def test_the_exit_code_shows_that_a_job_has_failed(local, tmp_path):
    command = [sys.executable, "-c", "raise ValueError('no data')"]

    code, _, err = local("submit", _spec(tmp_path, command=command, image=None), "--wait")

    assert code == 1
    assert "ValueError: no data" in err
