"""References between variables, and the order in which Kubernetes can expand them."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.references import expand, in_order


@pytest.mark.parametrize(
    ("word", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)-$(B)y", "x1-$(A)y"),
        ("$(C.D-e)", "2"),
        ("$$(A)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$A ${A} $()", "$A ${A} $()"),
    ],
)
def test_a_reference_is_replaced_once_unless_it_is_escaped_or_unknown(word, expanded):
    assert expand(word, {"A": "1", "B": "$(A)", "C.D-e": "2"}) == expanded


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ({"A": "1", "B": "2", "C": None}, "A B C"),
        ({"URL": "https://$(TOKEN)", "TOKEN": None}, "TOKEN URL"),
        ({"A": "$(C)", "B": "1", "C": "$(B)"}, "B C A"),
        ({"A": "$$(B)", "B": "1"}, "A B"),
        ({"A": "$(A):$(UNKNOWN)", "B": "1"}, "A B"),
        # In a circle: as it is, and everything else behind what it refers to.
        ({"A": "$(B)", "B": "$(A)", "C": "$(D)", "D": "1"}, "B A D C"),
    ],
)
def test_a_variable_stands_behind_those_that_it_refers_to(values, order):
    entries = [{"name": name, "value": value} for name, value in values.items()]

    assert " ".join(entry["name"] for entry in in_order(entries)) == order


def test_a_variable_that_is_given_twice_keeps_both_entries():
    entries = [{"name": "URL", "value": "$(A)"}, {"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]

    assert [entry["value"] for entry in in_order(entries)] == ["1", "$(A)2", "$(A)"]
