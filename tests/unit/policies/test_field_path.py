"""A rule's field is a path that the spec has."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.policies.field_path import parse_path, values_at


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("image", ("image",)),
        ("resources_per_node.gpu", ("resources_per_node", "gpu")),
        ("resources_per_node.cpu.limits", ("resources_per_node", "cpu", "limits")),
        ("replicas.*.image", ("replicas", "*", "image")),
        ("replicas.worker.overrides[*].env.X", ("replicas", "worker", "overrides", "*", "env", "X")),
        ("replicas.worker.overrides.0.env.X", ("replicas", "worker", "overrides", "0", "env", "X")),
        ("env.WANDB_MODE", ("env", "WANDB_MODE")),
        ("pod_template.spec.nodeSelector['a.b/c']", ("pod_template", "spec", "nodeSelector", "a.b/c")),
        ("elastic.max_nodes", ("elastic", "max_nodes")),
        ("manifest", ("manifest",)),
    ],
)
def test_a_path_is_read(text, path):
    assert parse_path(text) == path


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("imag", "Did you mean 'image'?"),
        ("resources_per_node.gpus", "Did you mean 'gpu'?"),
        ("replicas.wrker.image", "There is no role 'wrker'"),
        ("replicas.worker.imag", "Did you mean 'image'?"),
        ("image.x", "has no parts"),
        ("num_proc_per_node.x", "has no parts"),
        ("args.x", "has no parts"),
        ("manifest.spec", "Use one of these."),
        ("", "Correct the path"),
        (".image", "Correct the path"),
        ("a..b", "Correct the path"),
        ("env['A'", "Correct the path"),
    ],
)
def test_what_the_spec_does_not_have_is_refused(text, part):
    with pytest.raises(SpecError) as caught:
        parse_path(text)
    assert part in str(caught.value)


def test_the_values_at_a_path():
    value = {"a": [{"b": 1}, {"b": 2}, {"c": 3}], "d": {"x": {"b": 4}}}

    assert list(values_at(value, ("a", "*", "b"))) == [(("a", 0, "b"), 1), (("a", 1, "b"), 2)]
    assert list(values_at(value, ("a", "1", "b"))) == [(("a", 1, "b"), 2)]
    assert list(values_at(value, ("d", "*", "b"))) == [(("d", "x", "b"), 4)]
    assert list(values_at(value, ("a", "b"))) == []
    assert list(values_at(value, ())) == [((), value)]
