"""Policy files are validated when they are loaded, and chosen by namespace, DAG, tag and framework."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.policies.library import chosen_by_namespace, load_policies, policies_for
from airflow_trainer_provider.policies.policy import AppliesTo, Rule, Subject, complaints, is_locked_to

REASON = "Because."


def rule(**fields):
    return {"field": "resources_per_node.gpu", "reason": REASON, **fields}


def load(folder, *rules, **fields):
    (folder / "one.yaml").write_text(yaml.safe_dump({"rules": list(rules), **fields}))
    return load_policies(folder)


def problem(folder, *rules, **fields):
    with pytest.raises(SpecError) as caught:
        load(folder, *rules, **fields)
    return caught.value.problems[0]


def test_policies_are_read_in_the_order_of_their_names(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"description": name, "rules": [rule(max=8)]}))

    first, second = load_policies(tmp_path)

    assert (first.name, first.file, first.policy.description) == ("a", tmp_path / "a.yaml", "a")
    assert second.policy.rules[0].path == ("resources_per_node", "gpu")
    assert load_policies(None) == []


@pytest.mark.parametrize(
    ("rules", "field", "part"),
    [
        ([], "rules", "a list that is not empty"),
        ([{"field": "image", "required": True}], "rules[0].reason", "a value"),
        ([{"reason": REASON, "required": True}], "rules[0].field", "a value"),
        ([rule()], "rules[0]", "at least one of default, required"),
        ([rule(maximum=8)], "rules[0].maximum", "Remove it"),
        ([rule(field="resources_per_node.gpus", max=8)], "rules[0].field", "Did you mean 'gpu'?"),
        ([rule(field="queue_name", required=True)], "rules[0].field", "Write it as scheduling.queue_name."),
        ([rule(max="many")], "rules[0].max", "a quantity"),
        ([rule(min=9, max=8)], "rules[0].min", "at most max (8)"),
        ([rule(min="2Gi", max="1Gi")], "rules[0].min", "at most max (1Gi)"),
        ([rule(locked=1, max=8)], "rules[0]", "no other rule beside locked"),
        ([rule(forbidden=True, default=1)], "rules[0]", "no other rule beside forbidden"),
        ([rule(default=16, max=8)], "rules[0].default", "at most 8"),
        ([rule(default=3, allowed=[1, 2])], "rules[0].default", "one of 1, 2"),
        ([rule(default="many")], "rules[0].default", "a whole number"),
        ([rule(field="env.A", locked=True)], "rules[0].locked", "text or a number"),
        ([rule(allowed=[])], "rules[0].allowed", "a list that is not empty"),
        ([rule(field="image", pattern="[")], "rules[0].pattern", "a regular expression"),
        ([rule(field="image", pattern="(?!x)y")], "rules[0].pattern", "RE2"),
        ([rule(field="image", pattern=r"(a)\1")], "rules[0].pattern", "RE2"),
        ([rule(field="manifest", required=True)], "rules[0]", "forbidden alone"),
        (
            [rule(field="pod_template.spec.priorityClassName", required=True)],
            "rules[0].field",
            "Write scheduling.priority_class.",
        ),
        (
            [rule(field="pod_template.spec.nodeSelector['a.b/pool']", required=True)],
            "rules[0].field",
            "Write scheduling.node_selector['a.b/pool'].",
        ),
        ([rule(field="pod_template.spec.volumes.*.hostPath", forbidden=True)], "rules[0].field", "volumes.*.host_path"),
        (
            [rule(field="pod_template.spec.tolerations", forbidden=True)],
            "rules[0].field",
            "Write scheduling.tolerations.",
        ),
        (
            [rule(field="pod_template.spec.tolerations.*.key", allowed=["a"])],
            "rules[0].field",
            "Write scheduling.tolerations.*.key.",
        ),
        (
            [rule(field="pod_template.spec.volumes.*.secret.secretName", allowed=["a"])],
            "rules[0].field",
            "Write volumes.*.secret.name.",
        ),
        ([rule(field="pod_template.spec.containers.*.image", required=True)], "rules[0].field", "Write image"),
        ([rule(step=0)], "rules[0].step", "more than 0"),
        ([rule(step=-2)], "rules[0].step", "more than 0"),
        ([rule(step="x")], "rules[0].step", "a quantity"),
        ([rule(step=2, default=3)], "rules[0].default", "in steps of 2"),
        ([rule(max=8), rule(max="x")], "rules[1].max", "a quantity"),
        (
            [rule(field="scheduling.gang", locked={"scheduler": "kai"})],
            "rules[0].locked",
            "Write scheduling.gang.scheduler",
        ),
        ([rule(field="runtime_ref", allowed=["a", {"name": "b"}])], "rules[0].allowed", "Write runtime_ref.name"),
        ([rule(field="run_policy.exit_codes.restart", allowed=[75])], "rules[0].allowed", "locked"),
        ([rule(field="run_policy.exit_codes.restart.*", locked=75)], "rules[0].locked", "Lock run_policy.exit_codes"),
    ],
)
def test_a_wrong_rule_is_an_error_that_names_file_and_field(tmp_path, rules, field, part):
    found = problem(tmp_path, *rules)

    assert found.field == f"{tmp_path / 'one.yaml'}: {field}"
    assert part in str(found)


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"applies_to": {"namespace": ["a"]}}, "applies_to.namespace", "Did you mean 'namespaces'?"),
        ({"applies_to": {"frameworks": ["pytroch"]}}, "applies_to.frameworks", "Did you mean 'pytorch'?"),
        ({"applies_to": {"tags": "gpu"}}, "applies_to.tags", "a list"),
        ({"apply": {}}, "apply", "applies_to"),
    ],
)
def test_a_wrong_policy_is_an_error(tmp_path, fields, field, part):
    found = problem(tmp_path, rule(max=8), **fields)

    assert found.field == f"{tmp_path / 'one.yaml'}: {field}"
    assert part in str(found)


@pytest.mark.parametrize(
    "good",
    [
        rule(min=0, max=8, default=1, required=True),
        rule(field="image", pattern=r"registry\.example/.*(?:v1|v2)(?P<tag>x)?", required=True),
        rule(field="resources_per_node.memory", max="64Gi", default="4Gi"),
        rule(field="replicas.*.image", locked="i:1"),
        rule(field="run_policy.backoff_limit", locked=0),
        rule(field="manifest", forbidden=True),
        rule(field="scheduling.gang", allowed=["kai"], default="kai"),
        rule(field="run_policy.exit_codes.restart", locked=[75, "128-255"]),
        rule(field="elastic.max_nodes", default=4),
    ],
)
def test_a_right_rule_is_taken(tmp_path, good):
    assert {*load(tmp_path, good)[0].policy.rules[0].kinds} == good.keys() - {"field", "reason"}


@pytest.mark.parametrize(
    ("applies_to", "matches"),
    [
        ({}, True),
        ({"namespaces": ["team-*"]}, True),
        ({"namespaces": ["team-b"]}, False),
        ({"dags": ["nightly_*", "other"]}, True),
        ({"tags": ["gpu"]}, True),
        ({"tags": ["cpu"]}, False),
        ({"frameworks": ["pytorch"]}, True),
        ({"frameworks": ["jax"]}, False),
        ({"namespaces": ["team-a"], "dags": ["team-a"]}, False),
        ({"namespaces": ["team-a"], "tags": ["team-a"]}, False),
    ],
)
def test_a_policy_is_chosen_by_all_that_is_given(applies_to, matches):
    subject = Subject("team-a", "nightly_bert", {"gpu", "nlp"}, "pytorch")

    assert AppliesTo(**applies_to).matches(subject) is matches


def test_a_policy_for_namespaces_is_not_for_a_job_without_one(tmp_path):
    policies = load(tmp_path, rule(max=8), applies_to={"namespaces": ["?*"]})

    assert policies_for(policies, Subject(None)) == []
    assert policies_for(policies, Subject("a")) == policies
    assert chosen_by_namespace(policies)
    assert not chosen_by_namespace(load(tmp_path, rule(max=8)))


@pytest.mark.parametrize(
    ("fields", "value", "expected"),
    [
        ({"max": 8}, 8, []),
        ({"max": 8}, 9, ["at most 8"]),
        ({"max": 8}, "gpu", ["at most 8"]),
        ({"min": "1Gi", "max": "2Gi"}, {"requests": "512Mi", "limits": "3Gi"}, ["at least 1Gi", "at most 2Gi"]),
        ({"max": "2Gi"}, {"requests": None, "limits": "2048Mi"}, []),
        ({"step": 2}, 4, []),
        ({"step": 2}, 3, ["in steps of 2"]),
        ({"min": 1, "step": 2}, 3, []),
        ({"min": 1, "step": 2}, 4, ["in steps of 2"]),
        ({"step": "512Mi"}, {"requests": "1Gi", "limits": "1.5Gi"}, []),
        ({"step": "512Mi"}, "700Mi", ["in steps of 512Mi"]),
        ({"step": 0.1}, 0.3, []),
        ({"step": 2}, "gpu", ["in steps of 2"]),
        ({"allowed": [1, "a"]}, "1", []),
        ({"allowed": [1, "a"]}, "b", ["one of 1, a"]),
        ({"pattern": "a+"}, "aa", []),
        ({"pattern": "a+"}, "aab", ["text that matches a+"]),
        ({"pattern": "a+"}, ["a", "b"], ["text that matches a+"]),
        ({"pattern": "a+"}, {"x": "a"}, ["text that matches a+"]),
    ],
)
def test_values_are_held_against_a_rule(fields, value, expected):
    assert list(complaints(Rule(field="image", reason=REASON, **fields), value)) == expected


@pytest.mark.parametrize(
    ("value", "expected", "is_locked"),
    [
        ({"requests": "4", "limits": "4"}, 4, True),
        ({"requests": None, "limits": "4"}, 4, True),
        ({"requests": "2", "limits": "4"}, 4, False),
        ({}, 4, False),
        (None, 4, False),
        ("offline", "offline", True),
    ],
)
def test_a_locked_value(value, expected, is_locked):
    assert is_locked_to(value, expected) is is_locked
