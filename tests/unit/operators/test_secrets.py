"""Each shape of a secret, in everything that the operator shows."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, redact
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import reset_secrets_masker
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_trainer_provider import TrainJobOperator
from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.diagnosis.diagnosis import Diagnosis
from airflow_trainer_provider.job.handle import JobHandle
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.job.outcome import JobOutcome
from airflow_trainer_provider.kinds.base import Facts
from airflow_trainer_provider.kinds.objects.pod_secrets import pod_secrets
from airflow_trainer_provider.local.backend import LocalBackend
from airflow_trainer_provider.operators.clean_up import CleanUpTrainJobsOperator
from airflow_trainer_provider.operators.fields import valid_names
from airflow_trainer_provider.operators.lifecycle import DeleteTrainJobOperator
from airflow_trainer_provider.operators.outcome import hand_on
from airflow_trainer_provider.sensors.train_job import TrainJobSensor
from airflow_trainer_provider.spec import parse_spec
from airflow_trainer_provider.text.hidden_values import given
from airflow_trainer_provider.text.mask import Mask
from tests.unit.text.secret_shapes import SECRET, SHAPES

KUBECONFIG = f"apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user:\n    token: {SECRET}\n"
BASE = {"framework": "pytorch", "num_nodes": 2, "image": "registry.example/train:1", "command": ["python", "t.py"]}
HANDLE = JobHandle(name="j", uid="u", backend="local", framework="jax", leader="worker-0", owner=1, location="/l")
IDENTITY = Identity(dag_id="d", run_id="r", task_id="train")


@pytest.fixture(autouse=True, scope="module")
def _empty_masker():
    yield
    reset_secrets_masker()


@pytest.fixture
def context():
    return _context()


@pytest.fixture
def rendered(context):
    """Function (backend, fields) -> the operator with rendered fields."""

    def rendered(backend="native", **fields):
        reset_secrets_masker()
        return _rendered(context, backend, fields)

    return rendered


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def shape(request):
    return request.param


@pytest.fixture(scope="module")
def task(shape):
    """The operator with the fields of a shape, rendered, whose secrets are the only ones that the masker knows."""
    reset_secrets_masker()
    return _rendered(_context(), "native", shape.fields)


def _context():
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, pushed={})
    ti.xcom_push = lambda key, value: ti.pushed.update({key: value})
    return {"ti": ti}


def _rendered(context, backend, fields):
    with DAG("d", schedule=None):
        # With a namespace: no connection is looked for.
        task = TrainJobOperator(task_id="train", **{**BASE, "backend": backend, "namespace": "n", **fields})
    task.render_template_fields(context)
    return task


def test_the_stored_fields_show_no_secret(task, shape):
    stored = _serialize_rendered_fields(task)

    assert shape.secret not in json.dumps(stored)
    for name, shown in shape.shown.items():
        # Airflow itself masks all that stands under some names.
        assert redact(json.loads(json.dumps(stored[name])), name) == redact(shown, name)


def test_the_rendered_job_shows_no_secret(task, shape, tmp_path):
    assert task.rendered_job.startswith("apiVersion: v1\nkind: Service\n")
    texts = [
        task.rendered_job,
        *(_cluster(backend).render(task._job(), IDENTITY) for backend in ("trainer", "training-operator")),
    ]
    if "pod_template" not in shape.fields:
        job = plan_job(parse_spec({**BASE, **shape.fields, "image": None}))
        texts.append(LocalBackend(tmp_path, 1, None).render(job, IDENTITY))

    for text in texts:
        assert list(yaml.safe_load_all(text))
        assert shape.secret not in text


def test_the_job_itself_gets_what_was_rendered(task, shape):
    assert task._job().spec == parse_spec({**BASE, **shape.fields})
    for name, value in shape.fields.items():
        assert given(getattr(task, name)) == value


def test_a_subclass_can_read_and_change_a_field_with_a_secret(rendered):
    task = rendered(env={"DB_PASSWORD": SECRET}, args=["--token", SECRET])

    task.env["MORE"] = "x"
    task.args.append("--more")

    assert {**task.env} == {"DB_PASSWORD": SECRET, "MORE": "x"}
    assert dict(task._job().spec.env) == {"DB_PASSWORD": SECRET, "MORE": "x"}
    assert list(task._job().spec.args) == ["--token", SECRET, "--more"]
    assert _serialize_rendered_fields(task)["args"] == ["--token", "***", "--more"]
    # As 'airflow tasks render' prints them.
    assert str(task.args) == "['--token', '***', '--more']"
    assert SECRET not in f"{task.env} {task.env!r}"


def test_the_output_of_the_job_is_masked_in_the_worker_by_airflow_and_in_the_triggerer_by_the_pods(task, shape):
    assert shape.secret not in redact(f"the script wrote {shape.secret} here")
    for mask in _pod_masks(task):
        assert shape.secret not in mask.text(f"the script wrote {shape.secret} here")


def _pod_masks(task):
    """The masks of a process that sees only the pods."""
    for backend in ("native", "training-operator"):
        order = _cluster(backend)._order(task._job(), IDENTITY)
        rendered = order.render(order.name, Facts())
        templates = list(_templates([*rendered.before, rendered.main, *rendered.after]))
        assert templates
        secrets = [pod_secrets({"metadata": {}, "spec": template["spec"]}) for template in templates]
        yield Mask(frozenset().union(*secrets))


def _cluster(backend):
    return ClusterBackend(backend, None, "n")


def _templates(value):
    if isinstance(value, dict):
        if "containers" in (value.get("spec") or {}):
            yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _templates(each)


def test_an_error_shows_no_secret(shape):
    problems = [Problem(name, value, "something else", "Change it.") for name, value in shape.fields.items()]

    assert shape.secret not in str(SpecError(problems))
    assert "something else. Change it." in str(SpecError(problems))


def test_a_failure_shows_no_secret(task, context, shape):
    """Even if the triggerer did not know the secret, the worker that resumes the task does."""
    context["ti"].task = task
    failure = Diagnosis(
        job="j",
        phase="failed",
        reason="Error",
        message=f"worker-0 failed: {shape.secret}.",
        traceback=(f"ValueError: {shape.secret}",),
        last_log_lines=("line", shape.secret),
    )

    with pytest.raises(AirflowException) as caught:
        hand_on(context, SimpleNamespace(acknowledge=_acknowledge), HANDLE, JobOutcome(failure=failure))

    assert shape.secret not in str(caught.value)
    failure = context["ti"].pushed["failure"]
    assert shape.secret not in json.dumps(failure)
    assert (failure["job"], failure["phase"], failure["last_log_lines"][0]) == ("j", "failed", "line")


async def _acknowledge(handle):
    return None


def test_only_the_secret_is_masked_in_a_result(rendered, context):
    task = rendered(env={"DB_PASSWORD": SECRET})
    context["ti"].task = task
    result = {"tokenizer": "s3://x", "password_hash": "0123456789abcdef", "url": f"postgres://u:{SECRET}@db"}
    hook = SimpleNamespace(acknowledge=_acknowledge)

    summary = hand_on(context, hook, HANDLE, JobOutcome(summary={"name": "j", "result": result}))

    assert summary == {"name": "j", "result": {**result, "url": "postgres://u:***@db"}}


def test_fields_without_a_secret_keep_their_types(rendered):
    env, args = {"A": "b"}, ["--lr", "0.1"]
    task = rendered(env=env, args=args)

    assert type(task.env) is dict
    assert type(task.args) is list
    assert (task.env, task.args) == (env, args)


@pytest.mark.parametrize("secret", ["native", "train", "kubernetes_default", "abc", "changeme", "true"])
def test_a_short_or_common_secret_is_masked_in_its_field_only(rendered, secret):
    task = rendered(env={"DB_PASSWORD": secret}, namespace="training")
    stored = _serialize_rendered_fields(task)

    assert stored["env"] == {"DB_PASSWORD": "***" if secret != "true" else secret} or secret == "true"
    # The listener that ends the job of a killed task reads them.
    assert (stored["backend"], stored["namespace"]) == ("native", "training")
    assert stored["kubernetes_conn_id"] == "kubernetes_default"
    assert redact(f"the word {secret} in a log") == f"the word {secret} in a log"


def test_a_secret_that_is_a_part_of_a_name_is_not_masked_in_it(rendered):
    task = rendered(env={"DB_PASSWORD": "team-7-prod"}, namespace="ns-team-7-prod")

    assert _serialize_rendered_fields(task)["namespace"] == "ns-team-7-prod"
    assert "team-7-prod" not in json.dumps(_serialize_rendered_fields(task)["env"])


def test_invalid_fields_and_their_error_show_no_secret(rendered, context):
    task = rendered(env={"DB_PASSWORD": SECRET}, num_nodes=f"ghp_{SECRET}", args=f"--token={SECRET}")

    assert "num_nodes: got '***'" in json.loads(task.rendered_job)["error"]
    assert SECRET not in json.dumps(_serialize_rendered_fields(task))
    with pytest.raises(AirflowFailException) as caught:
        task.execute(context)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


@pytest.mark.parametrize("field", ["backend", "kubernetes_conn_id", "namespace", "presets"])
def test_a_kubeconfig_in_place_of_a_name_is_refused_and_hidden(context, field):
    reset_secrets_masker()
    task = _rendered(context, "native", {field: KUBECONFIG})

    with pytest.raises(AirflowFailException) as refused:
        task.execute(context)

    assert SECRET not in json.dumps(_serialize_rendered_fields(task))
    assert field in str(refused.value)
    assert SECRET not in f"{refused.value} {task.rendered_job}"
    assert SECRET not in redact(f"a line with {SECRET}")


@pytest.mark.parametrize("field", ["backend", "namespace"])
@pytest.mark.parametrize("token", ["q8Zt4Lw0PxRk2mNvB7cD", "sha256~Wb2zXg8hWmCk1P0x1lq2xk3x9c2x0kz8b8S9J1q2w3e"])
def test_a_token_without_a_known_form_in_place_of_a_name_is_refused_and_hidden(context, field, token):
    reset_secrets_masker()
    task = _rendered(context, "native", {field: token})

    with pytest.raises(AirflowFailException) as refused:
        task.execute(context)

    assert f"{field}: got '***'" in str(refused.value)
    assert token not in json.dumps(_serialize_rendered_fields(task)) + task.rendered_job
    assert token not in redact(f"a line with {token}")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("namespace", "Team_Vision_2"), ("namespace", "US1-DEV2-ML"), ("backend", "native2.0.1")],
)
def test_a_name_with_a_mistake_is_shown(context, field, wrong):
    task = _rendered(context, "native", {field: wrong})

    with pytest.raises(AirflowFailException, match=f"{field}: got '{wrong}'"):
        task.execute(context)


@pytest.mark.parametrize(
    ("operator", "field"),
    [
        *((TrainJobSensor, field) for field in ("job", "name", "selector", "allowed_phases", "kubernetes_conn_id")),
        *((DeleteTrainJobOperator, field) for field in ("job", "name", "backend", "namespace")),
        *((CleanUpTrainJobsOperator, field) for field in ("older_than", "backend", "namespace", "list_only")),
    ],
)
def test_a_kubeconfig_is_refused_and_hidden_in_what_waits_for_jobs_and_manages_them(context, operator, field):
    reset_secrets_masker()
    named = {} if operator is CleanUpTrainJobsOperator or field in ("job", "name") else {"name": "j"}
    with DAG("d", schedule=None):
        task = operator(
            task_id="t", **{"deferrable": False} if operator is TrainJobSensor else {}, **named | {field: KUBECONFIG}
        )
    task.render_template_fields(context)

    with pytest.raises(AirflowFailException) as refused:
        task.execute(context)

    assert SECRET not in json.dumps(_serialize_rendered_fields(task))
    assert field in str(refused.value)
    assert SECRET not in str(refused.value)
    assert SECRET not in redact(f"a line with {SECRET}")


def test_a_kubeconfig_in_place_of_a_name_stays_hidden_in_the_task_itself(context):
    """Airflow 3.1 masks nothing in what it stores of the fields of a task that has ended."""
    task = _rendered(context, "native", {"backend": KUBECONFIG})

    with pytest.raises(AirflowFailException):
        task.execute(context)

    assert SECRET not in task.backend.serialize()


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("namespace", "sk-proj-ml-training"),
        ("namespace", "sk-a1b2c3d4e5f6g7h8"),
        ("kubernetes_conn_id", "hf_gpucluster01"),
        ("kubernetes_conn_id", "npm_buildcluster2"),
    ],
)
def test_a_name_that_begins_like_a_token_is_stored_as_it_is(context, field, name):
    """The listener reads from the stored fields where the job of a killed task is."""
    reset_secrets_masker()
    task = _rendered(context, "native", {field: name})

    assert _serialize_rendered_fields(task)[field] == name
    assert redact(f"s3://bucket/{name}/model") == f"s3://bucket/{name}/model"


@pytest.mark.parametrize("value", [KUBECONFIG, "ghp_Xk29dLq0vRt7mPz4WcB8nHs3"])
@pytest.mark.parametrize("field", ["selector", "kubernetes_conn_id"])
def test_a_deferred_sensor_hands_no_secret_to_its_trigger(context, field, value):
    reset_secrets_masker()
    with DAG("d", schedule=None):
        task = TrainJobSensor(task_id="t", deferrable=True, **{"selector": "app=train", field: value})
    task.render_template_fields(context)

    with pytest.raises(AirflowFailException) as refused:
        task.execute(context)

    assert field in str(refused.value)
    assert SECRET not in str(refused.value)
    assert value not in str(refused.value)


@pytest.mark.parametrize(
    "selector",
    ["app=train", "app in (a, b),\n!c", "a==b, c != d, e > 3", "example.com/team=x.y_z", "auth-key=x9f8e7d6c5"],
)
def test_a_label_selector_is_no_secret(context, selector):
    with DAG("d", schedule=None):
        task = TrainJobSensor(task_id="t", selector=selector)
    task.render_template_fields(context)

    assert valid_names(task, task.template_fields)["selector"] == selector
    assert type(task.selector) is str


def test_a_subclass_uses_its_own_fields_as_they_are(context):
    class Reporting(TrainJobSensor):
        template_fields = (*TrainJobSensor.template_fields, "webhook")

        def __init__(self, *, webhook, **kwargs):
            super().__init__(**kwargs)
            self.webhook = webhook

    with DAG("d", schedule=None):
        task = Reporting(task_id="t", name="j", webhook={"password": SECRET})
    task.render_template_fields(context)

    assert json.loads(json.dumps(task.webhook)) == {"password": SECRET}


def test_a_tuple_is_hidden_and_used_unchanged(rendered):
    task = rendered(args=(f"--token={SECRET}",))

    assert list(task._job().spec.args) == [f"--token={SECRET}"]
    assert SECRET not in json.dumps(_serialize_rendered_fields(task))


def test_a_value_that_is_refused_is_hidden(rendered):
    task = rendered(args={f"--token={SECRET}"})

    with pytest.raises(SpecError, match="args: got 'set'"):
        task._job()
    assert SECRET not in json.dumps(_serialize_rendered_fields(task))


def test_a_mapped_tasks_fields_are_hidden_as_well(context):
    with DAG("d", schedule=None):
        task = TrainJobOperator(task_id="train", backend="native", namespace="n", env={"DB_PASSWORD": SECRET}, **BASE)
    task._do_render_template_fields(
        parent=task,
        template_fields=task.template_fields,
        context=context,
        jinja_env=task.get_template_env(),
        seen_oids=set(),
    )

    assert _serialize_rendered_fields(task)["env"] == {"DB_PASSWORD": "***"}


def test_what_is_returned_with_render_only_shows_no_secret(rendered, context):
    fields = {"framework": "jax", "image": None, "command": ["true"], "render_only": True}
    text = rendered("local", **fields, env={"DB_PASSWORD": SECRET}, args=["--token", SECRET]).execute(context)

    assert SECRET not in text
    assert "true --token" in text


def test_the_name_of_a_secret_object_stays_readable_in_the_log(rendered):
    pod = {"image_pull": {"secrets": ["registry-login-7"]}, "env_from": [{"secret": "hub-login-7"}]}

    task = rendered(pod=pod, env={"DB_PASSWORD": SECRET})

    text = 'secret "hub-login-7" not found, nor "registry-login-7"'
    assert redact(text) == text
    assert redact(f"it wrote {SECRET}") == "it wrote ***"
    for name in ("registry-login-7", "hub-login-7"):
        assert name in task.rendered_job
