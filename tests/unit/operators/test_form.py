"""The form of the trigger dialog: its parameters follow from the spec, the presets and the policies."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.definitions.param import ParamValidationError
from airflow.serialization import serialized_objects

import airflow_trainer_provider as provider
from airflow_trainer_provider import training_params
from airflow_trainer_provider.errors import SpecError


@pytest.fixture
def policies(tmp_path, monkeypatch):
    """Function (rule, ..., applies_to): writes a policy."""
    folder = tmp_path / "policies"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__TRAINER__POLICIES_FOLDER", str(folder))

    def write(*rules, **applies_to):
        given = [{"reason": "Because.", **rule} for rule in rules]
        (folder / "one.yaml").write_text(yaml.safe_dump({"applies_to": applies_to, "rules": given}))

    return write


@pytest.fixture
def presets(tmp_path, monkeypatch):
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "large.yaml").write_text("description: Two large nodes\nnum_nodes: 2\nresources_per_node: {gpu: 8}\n")
    (folder / "small.yaml").write_text("num_nodes: 1\n")
    monkeypatch.setenv("AIRFLOW__TRAINER__PRESETS_FOLDER", str(folder))
    return folder


def refused(param, value):
    try:
        # A value that is taken becomes the parameter's own.
        copy.copy(param).resolve(value)
    except ParamValidationError:
        return True
    return False


@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        ("num_nodes", [1, 10000, None], [0, 10001, "2", 1.5]),
        ("resources_per_node.gpu", [1, None], [0]),
        ("resources_per_node.cpu", ["500m", None], [2]),
        ("resources_per_node.memory.limits", ["4Gi"], [4]),
        ("num_proc_per_node", [2, "auto", None], [[]]),
        ("run_policy.backoff_limit", [0, 100], [-1, 101]),
        ("run_policy.active_deadline_seconds", [0.5, 60], [0]),
        ("on_finish_action", ["keep", None], ["drop"]),
        ("args", [["--lr", "1"], None], ["--lr"]),
        ("env.EPOCHS", ["4", None], [4]),
        ("replicas.worker.image", ["i:1"], [1]),
        ("replicas.worker.replicas", [2], [0]),
        ("volumes", [[{"mount_path": "/data"}]], ["x"]),
        ("scheduling.priority_class", ["batch"], [1]),
        ("scheduling.node_selector", [{"a": "b"}], ["a=b"]),
        ("elastic.max_nodes", [2], [0]),
        ("tools", [{"tb": {"port": 6006}}, None], ["tb"]),
        ("tools.tb.port", [6006, None], [0, 65536]),
        ("tools.tb.access", ["node_port", None], ["nodeport"]),
    ],
)
def test_a_field_takes_what_the_spec_takes(field, right, wrong):
    (param,) = training_params(field).values()

    assert [value for value in right if refused(param, value)] == []
    assert [value for value in wrong if not refused(param, value)] == []


def test_a_parameter_has_a_title_a_section_and_the_specs_words():
    form = training_params(
        "num_nodes", "resources_per_node.gpu", "run_policy.backoff_limit", "env.LR", "on_kill_action"
    )

    assert {name: (param.schema["title"], param.schema["section"]) for name, param in form.items()} == {
        "num_nodes": ("Num nodes", "Size"),
        "resources_per_node__gpu": ("GPUs", "Resources of a node"),
        "run_policy__backoff_limit": ("Backoff limit", "Run policy"),
        "env__LR": ("LR", "Environment"),
        "on_kill_action": ("On kill action", "Other"),
    }
    assert form["num_nodes"].description.startswith("The number of nodes that train, including the master or chief")
    assert form["on_kill_action"].description.endswith("Default: delete.")
    assert all(param.value is None for param in form.values())
    assert set(training_params()) == {
        "num_nodes",
        "resources_per_node__cpu",
        "resources_per_node__memory",
        "resources_per_node__gpu",
        "run_policy__active_deadline_seconds",
        "run_policy__backoff_limit",
    }


def test_a_field_that_the_spec_does_not_have_is_an_error():
    with pytest.raises(SpecError, match="Did you mean 'num_nodes'"):
        training_params("num_nodez")


def test_policies_tighten_bounds_and_bring_choices_defaults_and_reasons(policies):
    policies(
        {
            "field": "num_nodes",
            "min": 2,
            "max": 4,
            "step": 1,
            "default": 3,
            "reason": "Larger jobs need a reservation.",
        },
        {"field": "resources_per_node.cpu", "allowed": [1, "500m"]},
        {"field": "image", "pattern": r"registry\.example/.*", "required": True},
        {"field": "env.MODE", "locked": "offline"},
        {"field": "working_dir", "forbidden": True},
        {"field": "run_policy.active_deadline_seconds", "max": 0.5},
    )
    fields = ("num_nodes", "resources_per_node.cpu", "image", "env.MODE", "working_dir")

    form = training_params(*fields, "run_policy.active_deadline_seconds")

    assert "working_dir" not in form
    nodes = form["num_nodes"]
    assert (nodes.value, nodes.schema["minimum"], nodes.schema["maximum"]) == (3, 2, 4)
    assert nodes.description.endswith("At least 2; at most 4; in steps of 1. Larger jobs need a reservation.")
    assert [refused(nodes, value) for value in (1, 4, 5)] == [True, False, True]
    assert form["resources_per_node__cpu"].schema["enum"] == ["1", "500m", None]
    assert [refused(form["image"], value) for value in ("registry.example/i", "evil/i", None)] == [False, True, True]
    assert (form["env__MODE"].value, form["env__MODE"].schema["enum"]) == ("offline", ["offline"])
    assert form["run_policy__active_deadline_seconds"].schema["maximum"] == 0.5
    with pytest.raises(ParamValidationError):
        form["image"].resolve()


def test_the_authors_defaults_win_over_those_of_policies_but_not_over_locked_values(policies):
    policies({"field": "num_nodes", "default": 3}, {"field": "env.MODE", "locked": "offline"})

    form = training_params("num_nodes", "env.MODE", defaults={"num_nodes": 2, "env.MODE": "online"})

    assert (form["num_nodes"].value, form["env__MODE"].value) == (2, "offline")


@pytest.mark.parametrize(
    ("chosen_by", "bounded"),
    [({}, False), ({"framework": "jax"}, True), ({"framework": "mpi"}, False)],
)
def test_only_policies_for_the_form_count(policies, chosen_by, bounded):
    policies({"field": "num_nodes", "max": 4}, frameworks=["jax"])

    assert (training_params("num_nodes", **chosen_by)["num_nodes"].schema["maximum"] == 4) is bounded


def test_presets_are_offered_and_their_values_named(presets):
    form = training_params("num_nodes", presets=["small"])

    assert (form["presets"].value, form["presets"].schema["examples"]) == (["small"], ["large", "small"])
    assert "large: Two large nodes" in form["presets"].description
    assert [refused(form["presets"], value) for value in (["large", "small"], ["larg"], "large")] == [False, True, True]
    assert form["num_nodes"].description.endswith("In presets: large: 2, small: 1.")
    # Its own value would win over the preset's.
    assert form["num_nodes"].value is None
    assert "presets" not in training_params("num_nodes", presets=None)


def test_a_variable_has_the_instructions_of_the_presets(presets):
    (presets / "bert.yaml").write_text(
        "env_instructions: {EPOCHS: Passes over the data; 4 suffice.}\nenv: {EPOCHS: '4'}\n"
    )
    (presets / "gpt.yaml").write_text("env_instructions: {EPOCHS: Passes over the data; 4 suffice., LR: Below 0.1.}\n")

    form = training_params("env.EPOCHS", "replicas.worker.env.LR", "env.SEED", "working_dir")

    assert form["env__EPOCHS"].description == "Passes over the data; 4 suffice. In presets: bert: 4."
    assert form["replicas__worker__env__LR"].description == "Below 0.1."
    assert not form["env__SEED"].description
    assert "Below" not in training_params("env.LR", presets=None)["env__LR"].description


_TI = SimpleNamespace(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1, max_tries=0)


def _task(form, **params):
    with DAG("d", schedule=None, params=form) as dag:
        task = provider.XGBoostJobOperator(task_id="train", backend="local", command=["true"], **form.fields)
    return dag, task, {name: param.value for name, param in form.items()} | params


def test_an_operator_gets_the_values_of_the_form(presets):
    form = training_params("num_workers", "env.LR", "env.MODE", "resources_per_node.cpu", "run_policy.backoff_limit")
    _, task, params = _task(form, presets=["large"], num_workers=3, env__LR="0.1", run_policy__backoff_limit=0)

    task.render_template_fields({"params": params, "ti": _TI})

    assert (task.presets, task.num_workers, task.env) == (["large"], 3, {"LR": "0.1"})
    assert (task.resources_per_node, task.run_policy) == (None, {"backoff_limit": 0})
    # The form's number of workers replaces the preset's number of nodes.
    assert len(task._job().replicas) == 4
    assert "gpu: 8" in task.rendered_job


def test_a_dag_with_a_form_is_serialized(presets, policies):
    policies({"field": "num_nodes", "max": 4, "default": 2})
    form = training_params("num_nodes", "env.LR")
    dag, _, _ = _task(form)

    # Airflow 3.1 has the functions at another class.
    serialization = getattr(serialized_objects, "DagSerialization", serialized_objects.SerializedDAG)
    data = json.loads(json.dumps(serialization.to_dict(dag)))

    stored = serialization.from_dict(data)
    assert stored.params.get_param("num_nodes").schema["maximum"] == 4
    assert "num_nodes" in str(data["dag"]["tasks"])


_SCRIPT = """
import sys, time
import airflow.sdk, airflow.providers.common.compat.sdk
from airflow_trainer_provider import XGBoostJobOperator, training_params
began, before = time.process_time(), set(sys.modules)
training_params("num_nodes", "resources_per_node.gpu")
loaded = set(sys.modules) - before
print(time.process_time() - began, any(name.split(".")[0] in ("kubernetes", "kubernetes_asyncio") for name in loaded))
"""


def test_a_form_is_made_quickly_and_without_a_client(tmp_path):
    env = {"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], env=env, capture_output=True, text=True, check=True)

    seconds, has_client = done.stdout.splitlines()[-1].split()
    assert has_client == "False"
    assert float(seconds) < 2


def test_a_field_of_a_role_is_described_as_that_of_the_job():
    form = training_params("image", "replicas.worker.image")

    assert form["replicas__worker__image"].description == form["image"].description != ""


def test_a_field_is_described_by_the_model_that_its_own_extends():
    form = training_params("scheduling.node_selector", "replicas.worker.scheduling.node_selector")

    assert {each.description for each in form.values()} == {"Labels that a node has to have."}


def test_an_empty_list_is_not_described_as_the_default():
    for param in training_params("args", "volumes").values():
        assert "Default" not in param.description


@pytest.mark.parametrize(
    ("applies_to", "chosen_by", "bounded"),
    [
        ({"namespaces": ["team"]}, {"namespace": "team"}, True),
        ({"namespaces": ["team"]}, {"namespace": "other"}, False),
        ({"dags": ["nightly"]}, {"dag_id": "nightly"}, True),
        ({"dags": ["nightly"]}, {"dag_id": "other"}, False),
        ({"tags": ["gpu"]}, {"tags": ["gpu"]}, True),
        ({"tags": ["gpu"]}, {}, False),
    ],
)
def test_policies_are_selected_by_all_that_the_form_is_for(policies, applies_to, chosen_by, bounded):
    policies({"field": "num_nodes", "max": 4}, **applies_to)

    assert (training_params("num_nodes", **chosen_by)["num_nodes"].schema["maximum"] == 4) is bounded


def test_a_bound_of_the_spec_wins_over_a_wider_one_of_a_policy(policies):
    policies({"field": "num_nodes", "min": 0, "max": 20000})

    schema = training_params("num_nodes")["num_nodes"].schema
    assert (schema["minimum"], schema["maximum"]) == (1, 10000)


def test_a_pattern_is_for_the_whole_value(policies):
    policies({"field": "image", "pattern": r"registry\.example/\w+", "required": True})
    form = training_params("image")

    values = ("registry.example/i", "evil/registry.example/i", "registry.example/i@evil")
    assert [refused(form["image"], value) for value in values] == [False, True, True]
