"""What a TrainJob can change of its runtime's pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_trainer_provider.kinds.trainer.runtime_patch import fits, patch_fields, patch_for, schema_at

_SCHEMAS = Path(__file__).parent / "schemas"


@pytest.mark.parametrize(
    ("version", "field", "is_there"),
    [
        ("2.1", "volumes", True),
        ("2.1", "securityContext", False),
        ("2.2", "securityContext", True),
        ("2.2", "terminationGracePeriodSeconds", False),
        ("2.3", "terminationGracePeriodSeconds", True),
        ("2.3", "priorityClassName", False),
        # They are not laid over, but have fields of their own.
        ("2.3", "containers", False),
        # Those of the CRD have no image and no command.
        ("2.3", "initContainers", False),
    ],
)
def test_the_installed_crd_says_what_can_be_changed(version, field, is_there):
    found = patch_fields(json.loads((_SCHEMAS / f"{version}.json").read_text()))

    assert (field in found.pod) is is_there
    assert ("volumeMounts" in found.container, "env" in found.container) == (True, False)


def test_a_crd_without_patches_has_no_such_fields():
    assert patch_fields({"properties": {"spec": {"properties": {"podSpecOverrides": {"type": "array"}}}}}) is None
    assert schema_at({}, "spec", "trainer") == {}


_A, _B = {"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}


@pytest.mark.parametrize(
    ("name", "base", "wanted", "patch"),
    [
        ("volumes", None, [_A], [_A]),
        ("volumes", [_A], [_A, _B], [_B]),
        ("volumes", [_A], [_B], None),
        ("volumes", [_A], [{"name": "a", "hostPath": {}}], None),
        ("volumeMounts", [], [{"name": "a", "mountPath": "/1"}, {"name": "a", "mountPath": "/2"}], None),
        ("nodeSelector", {"a": "1"}, {"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        ("nodeSelector", {"a": "1"}, {"b": "2"}, None),
        ("tolerations", [{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
        ("serviceAccountName", "a", "b", "b"),
        ("serviceAccountName", "a", None, None),
    ],
)
def test_a_patch_gives_the_wanted_value_or_there_is_none(name, base, wanted, patch):
    assert patch_for(name, base, wanted) == patch


def test_lists_and_texts_are_as_short_as_the_schema_demands():
    schema = {"properties": {"args": {"type": "array", "maxItems": 2, "items": {"maxLength": 3}}}}

    assert fits({"args": ["abc", "d"], "numNodes": 1}, schema)
    assert not fits({"args": ["a", "b", "c"]}, schema)
    assert not fits({"args": ["abcd"]}, schema)
    # Linux takes no longer word.
    assert not fits("a" * 200_000, {})
