"""Which values are masked in the input of a job, and which stay readable."""

from __future__ import annotations

import json
import time

import pytest

from airflow_trainer_provider.text.redaction import redacted, redacted_lines, redacted_text, secrets_in
from tests.unit.text.secret_shapes import INNOCENT, SECRET, SHAPES


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_only_the_secret_is_masked(shape):
    before = json.dumps(shape.fields)

    assert redacted(shape.fields) == shape.shown
    assert json.dumps(shape.fields) == before


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_secrets_are_found_and_masked_ones_are_not_found_again(shape):
    assert any(shape.secret in secret for secret in secrets_in(shape.fields))
    assert secrets_in(shape.shown) == frozenset()
    assert redacted(shape.shown) == shape.shown


@pytest.mark.parametrize("value", INNOCENT, ids=str)
def test_a_value_that_only_resembles_a_secret_stays_readable(value):
    assert redacted(value) == value
    assert secrets_in(value) == frozenset()


def test_the_tables_are_large_enough():
    assert len(SHAPES) >= 60
    assert len(INNOCENT) >= 40


def test_all_data_of_a_secret_is_masked_and_none_of_a_configmap():
    data = {"data": {"a": "b"}, "stringData": {"c": "d"}, "metadata": {"name": "n"}}

    assert redacted({"kind": "Secret", **data}) == {
        "kind": "Secret",
        "data": {"a": "***"},
        "stringData": {"c": "***"},
        "metadata": {"name": "n"},
    }
    assert redacted({"kind": "ConfigMap", **data}) == {"kind": "ConfigMap", **data}


def test_all_parts_of_a_secrets_value_are_masked():
    given = {"credentials": {"plain": SECRET, "name": "n", "more": [SECRET]}, "password": 12345, "passwords": [SECRET]}

    assert redacted(given) == {
        "credentials": {"plain": "***", "name": "n", "more": ["***"]},
        "password": "***",
        "passwords": ["***"],
    }


class _Odd:
    def __str__(self):
        return f"password={SECRET}"


def test_yaml_that_expands_without_end_is_not_expanded():
    levels = "\n".join(f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 9)}]" for at in range(1, 12))
    text = f"apiVersion: v1\nkind: Pod\nl0: &l0 x\n{levels}\npassword: {SECRET}\n"

    assert redacted({"CONFIG": text})["CONFIG"].endswith("password: ***\n")


def _knot():
    knot: dict[str, object] = {}
    knot["self"] = knot
    return knot


_OBJECTS = [None, 1, 1.5, True, b"x", object(), {1: 2, None: 3, ("a",): "b"}, {"a", "b"}, [], {}, _knot(), [[[[]]]]]
_ODD = [{"name": 1, "value": 2}, {"name": None}, {"kind": "Secret", "data": "x"}, {"kind": ["Secret"]}, ["--token"]]
_TEXTS = [
    "",
    "\x00",
    "\ud800",
    "[" * 5000,
    '{"a":' * 2000,
    "'\"" * 1000,
    "password=",
    "://:@",
    "-----BEGIN PRIVATE KEY-----",
]


@pytest.mark.parametrize("value", [*_OBJECTS, *_ODD, *_TEXTS], ids=lambda value: type(value).__name__)
def test_any_value_is_accepted(value):
    redacted(value)
    secrets_in(value)
    redacted_text(str(value)[:10_000])


def test_an_object_whose_text_contains_a_secret_becomes_its_masked_text():
    assert redacted({"a": _Odd()}) == {"a": "password=***"}


_PIECES = [
    "x",
    "a b=c: ",
    "://a:",
    "\\",
    '"',
    '\\"',
    "'a",
    "{ ",
    "name:",
    "-----BEGIN PRIVATE KEY-----",
    "eyJ",
    "-u a:",
]
#: Of forms that are no part of the drawn texts below.
_STARTS = [
    "password=",
    "a=b=",
    "login ",
    "login -p ",
    "mysql ",
    "auth:a,",
    "sshpass -p ",
    "--token \\\n",
    "'--token', ",
    "password: |\n ",
    " password: |\n",
    ";PWD=",
    "\n",
    " ",
]


@pytest.mark.parametrize("piece", [*_PIECES, *_STARTS])
def test_the_time_grows_linearly_with_the_text(piece):
    text = piece * (200_000 // len(piece))

    begin = time.process_time()
    redacted(text)

    # Quadratic time would be minutes.
    assert time.process_time() - begin < 2


def test_a_long_value_of_short_words_takes_no_time():
    begin = time.process_time()
    redacted("auth:ab" + "-bb" * 30 + "=")

    # Two ways to read each word would be minutes.
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"GET /x: 407, url='http://user:{SECRET}@10.0.0.1:80'", "GET /x: 407, url='http://user:***@10.0.0.1:80'"),
        (
            f'spec.containers[0].env[2].value: Invalid value: "{SECRET}": no',
            'spec.containers[0].env[2].value: Invalid value: "***": no',
        ),
        (f'core.EnvVar{{Name:"A_TOKEN", Value:"{SECRET}"}}', 'core.EnvVar{Name:"A_TOKEN", Value:"***"}'),
        (f'exec: "train --token {SECRET}": not found', 'exec: "train --token ***": not found'),
        (f"it printed {{'token': '{SECRET}'}}", "it printed {'token': '***'}"),
        (f"users:\n  token: {SECRET}\n", "users:\n  token: ***\n"),
        ("env.DB_PASSWORD: got 'int'; allowed: text.", "env.DB_PASSWORD: got 'int'; allowed: text."),
        ('secret "hub-token" not found', 'secret "hub-token" not found'),
        ("couldn't find key token in Secret ns/hub", "couldn't find key token in Secret ns/hub"),
        ("imagePullSecrets[0].name: Required value", "imagePullSecrets[0].name: Required value"),
        ("Drop --conn-id, or --kubeconfig and --context.", "Drop --conn-id, or --kubeconfig and --context."),
    ],
)
def test_a_message_is_masked_and_its_words_stay(message, shown):
    assert redacted_text(message) == shown


def test_in_the_output_of_a_program_code_stays():
    code = "    password = get_password(token=tok)"

    assert redacted_lines([code, f"ValueError: ghp_{SECRET}", f"postgres://u:{SECRET}@db", ""]) == (
        code,
        "ValueError: ***",
        "postgres://u:***@db",
        "",
    )
    assert redacted_lines([]) == ()


def test_of_the_files_of_a_function_only_their_secrets_are_found():
    call = '{"args": [], "kwargs": {"token": "tok-12345678", "max_tokens": "512"}}'
    source = 'import os\nAPI_KEY = "abcd1234efgh"\nURL = "postgres://u:pa55word9@h/db"\nMODELS = ["resnet50"]\n'
    files = {"include/credentials.py": source, "dag/rotate_password.py": "import os\n", "call.json": call}

    assert secrets_in({"function": {"files": files}}) == {"abcd1234efgh", "pa55word9", "tok-12345678"}
