"""Rules are converted to CEL expressions for each kind of objects.

The golden files hold the expressions; tests/cluster has a real API server evaluate them.
"""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.kinds.registry import KINDS
from airflow_trainer_provider.policies.export import cel
from airflow_trainer_provider.policies.export.checks import NotExported
from airflow_trainer_provider.policies.export.expressions import expressions
from airflow_trainer_provider.policies.export.tools import of_tools
from airflow_trainer_provider.policies.policy import Rule
from airflow_trainer_provider.policies.targets import TARGETS, TOOL_TARGETS
from tests.golden_files import assert_golden

RULES = {
    "image": {"field": "image", "required": True, "pattern": r"registry\.example/.*"},
    "role": {"field": "replicas.worker.image", "pattern": ".*:v[0-9]+"},
    "role-size": {"field": "replicas.ps.replicas", "max": 2},
    "variable": {"field": "env.MODE", "locked": "offline"},
    "no-variable": {"field": "env.DEBUG", "forbidden": True},
    "gpu": {"field": "resources_per_node.gpu", "max": 8},
    "extended": {"field": "resources_per_node.extended['rdma/hca']", "required": True},
    "memory": {"field": "resources_per_node.memory", "required": True, "min": "1Gi"},
    "cpu-limit": {"field": "resources_per_node.cpu.limits", "allowed": [1, "500m"]},
    "steps": {"field": "resources_per_node.memory", "min": "1Gi", "step": "512Mi"},
    "small-steps": {"field": "resources_per_node.cpu", "step": "250m"},
    "too-small-steps": {"field": "resources_per_node.cpu", "step": "0.0001"},
    "steps-of-seconds": {"field": "run_policy.active_deadline_seconds", "min": 0.5, "step": 60},
    "parts-of-seconds": {"field": "run_policy.active_deadline_seconds", "step": 0.5},
    "nodes": {"field": "num_nodes", "max": 4},
    "node-sizes": {"field": "num_nodes", "allowed": [1, 2]},
    "processes": {"field": "num_proc_per_node", "max": 8},
    "deadline": {"field": "run_policy.active_deadline_seconds", "required": True, "max": 60.5},
    "restarts": {"field": "run_policy.backoff_limit", "max": 3},
    "grace": {"field": "run_policy.grace_period_seconds", "max": 60},
    "queue": {"field": "scheduling.queue_name", "locked": "team"},
    "framework": {"field": "framework", "allowed": ["pytorch", "jax"]},
    "host-path": {"field": "volumes.*.host_path", "pattern": "/data/.*"},
    "claim": {"field": "volumes.*.claim", "allowed": ["models"]},
    "taints": {"field": "scheduling.tolerations.*.key", "allowed": ["gpu"]},
    "credentials": {"field": "pod.image_pull.secrets", "forbidden": True},
    "pool": {"field": "scheduling.node_selector['example.com/pool']", "allowed": ["train"]},
    "priority": {"field": "scheduling.priority_class", "required": True},
    "user": {"field": "pod.security.run_as_user", "min": 1000},
    "host-network": {"field": "pod_template.spec.hostNetwork", "forbidden": True},
    "name": {"field": "name", "pattern": "[a-z]+"},
    "tolerations": {"field": "scheduling.tolerations", "locked": [{"operator": "Exists"}]},
    "default": {"field": "image", "default": "registry.example/train:1"},
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_as_expressions(name):
    rule = Rule(reason="Because.", **RULES[name])
    found = {}
    for target in TARGETS:
        title = f"{target.resource.kind} {target.resource.api_version}"
        for kind in rule.kinds:
            try:
                found.setdefault(title, {})[kind] = expressions(rule, kind, target) or "nothing to ask"
            except NotExported as error:
                found.setdefault(title, {})[kind] = f"not exported: {error}"

    assert_golden(f"policies/{name}.yaml", yaml.safe_dump({name: RULES[name], **found}, sort_keys=False, width=120))


TOOLS = {
    "tools": {"field": "tools", "forbidden": True},
    "tool": {"field": "tools.lab", "forbidden": True},
    "tools-required": {"field": "tools", "required": True},
    "tools-port": {"field": "tools.*.port", "allowed": [6006, 8888]},
    "tools-access": {"field": "tools.*.access", "allowed": ["cluster", "ingress"]},
    "tools-locked": {"field": "tools.lab.access", "locked": "node_port"},
    "tools-access-required": {"field": "tools.*.access", "required": True},
    "tools-host": {"field": "tools.*.host", "pattern": r".*\.example\.com"},
    "tools-host-of-job": {"field": "tools.*.host", "locked": "{job}.example.com"},
    "tools-host-pattern-of-job": {"field": "tools.*.host", "pattern": r"\{job\}\.example\.com"},
    "tools-path": {"field": "tools.*.path", "pattern": "/tools/.*"},
    "tools-class": {"field": "tools.*.ingress_class", "locked": "internal"},
    "tools-tls": {"field": "tools.*.tls_secret", "forbidden": True},
    "tools-url": {"field": "tools.*.url", "forbidden": True},
    "tools-annotations": {"field": "tools.*.annotations['a/b']", "locked": "c"},
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_rule_for_tools_as_expressions(name):
    rule = Rule(reason="Because.", **TOOLS[name])
    found = {}
    for target in TOOL_TARGETS:
        for kind in rule.kinds:
            try:
                found[target.resource.kind] = of_tools(rule, kind, target) or "nothing to ask"
            except NotExported as error:
                found[target.resource.kind] = f"not exported: {error}"

    assert_golden(f"policies/{name}.yaml", yaml.safe_dump({name: TOOLS[name], **found}, sort_keys=False, width=120))


def test_each_kind_is_a_target():
    known = {target.resource for target in TARGETS}

    # The Service that stands for a job of plain Jobs holds nothing that policies are about.
    assert {kind.resource for key, kind in KINDS.items() if key != "native"} <= known


def test_the_replica_specs_are_those_of_the_kinds():
    for target in TARGETS:
        (specs,) = {pods.path[1] for pods in target.pods if pods.is_map} or {None}
        assert specs is None or target.counts == (("spec", specs, "*", "replicas"),)


@pytest.mark.parametrize(
    ("path", "expression"),
    [
        (("spec", "a_b"), "object.?spec.?a_b"),
        # CEL takes these for its own words, and the others for no names.
        (("spec", "in"), 'object.?spec[?"in"]'),
        (("spec", "namespace"), 'object.?spec[?"namespace"]'),
        (("spec", "example.com/pool"), 'object.?spec[?"example.com/pool"]'),
        (("spec", "0a"), 'object.?spec[?"0a"]'),
    ],
)
def test_a_path_as_an_expression(path, expression):
    assert cel.optional("object", path) == expression


@pytest.mark.parametrize("field", ["command", "args"])
def test_a_rule_for_words_that_a_launchers_container_holds_as_well_is_not_exported(field):
    rule = Rule(reason="Because.", field=field, forbidden=True)

    for target in TARGETS:
        with pytest.raises(NotExported, match="no object has a field for it"):
            expressions(rule, "forbidden", target)


def test_a_locked_framework_refuses_the_objects_of_others():
    rule = Rule(reason="Because.", field="framework", locked="jax")

    found = {target.framework: expressions(rule, "locked", target) for target in TARGETS if target.framework}
    assert found.pop("jax") == []
    assert [*found.values()] == [["false"]] * len(found)
