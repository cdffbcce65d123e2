"""Functions that cannot be jobs: each is refused when the DAG file is parsed, with what is wrong and the way out."""

from __future__ import annotations

import functools
import textwrap

import pytest

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.functions.code import check_arguments, code_of
from tests.unit.functions.conftest import DECORATORS

HEAD = """\
import functools
import os.path
from math import *

import airflow.sdk as sdk
from airflow.sdk import DAG, Variable
from . import sibling
import beside

def train_job(function=None, **fields):
    return function or train_job

def other(function):
    return function

def wrapping(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

LEARNING_RATE = Variable
for NAME in "ab":
    pass
with open(__file__) as SOURCE:
    TEXT = SOURCE.read()

def reads_connection():
    from airflow.sdk import Connection
    return Connection
"""

#: Source -> what the error says of the function f.
REFUSED = {
    "f = train_job(lambda x: x)": ("<lambda>: got 'a lambda'", "Write a def"),
    "f = functools.partial(print)": ("got 'partial'", "Write a def"),
    "f = len": ("len: got 'builtin_function_or_method'", "Write a def"),
    "class f:\n    pass": ("f: got 'type'", "Write a def"),
    "@train_job\ndef f():\n    yield 1": ("f: got 'a generator (it has a yield)'", "Return a list"),
    "@train_job\nasync def f():\n    yield 1": ("f: got 'a generator", "Return a list"),
    "@train_job\n@other\ndef f():\n    pass": ("f: got 'the decorator @other'", "Drop it"),
    "@train_job\n@wrapping\ndef f():\n    pass": ("f: got 'the decorator @wrapping'", "Drop it"),
    "@train_job\n@functools.lru_cache(None)\ndef f():\n    pass": ("f: got '_lru_cache_wrapper'", "Write a def"),
    "f = wrapping(len)": ("len: got ", "alone"),
    "def outer(rate):\n    @train_job\n    def f():\n        return rate\n    return f\nf = outer(1)": (
        "f: got 'the variable rate of an enclosing function'",
        "Pass rate as an argument, or move it to the top level",
    ),
    "def outer():\n    def h(): ...\n    @train_job\n    def f():\n        h()\n    return f\nf = outer()": (
        "f: got 'the variable h of an enclosing function'",
        "Pass h ",
    ),
    "def outer(rate):\n    @train_job\n    def f(a=rate):\n        pass\n    return f\nf = outer(1)": (
        "f: got 'the variable rate of an enclosing function'",
        "Pass rate",
    ),
    "def outer():\n    class N: ...\n    @train_job\n    def f(a: N): ...\n    return f\nf = outer()": (
        "f: got 'the variable N of an enclosing function'",
        "Pass N",
    ),
    "@train_job\ndef f():\n    return Variable.get('a')": (
        "f: got 'Variable of airflow.sdk (line 6)'",
        "Pass its value as an argument",
    ),
    "@train_job\ndef f():\n    return sdk.Variable.get('a')": (
        "f: got 'sdk of airflow.sdk (line 5)'",
        "Pass its value",
    ),
    "@train_job\ndef f():\n    return LEARNING_RATE": (
        "f: got 'Variable of airflow.sdk (line 6); it is used by LEARNING_RATE (line 22)'",
        "Pass its value",
    ),
    "@train_job\ndef f():\n    from airflow.models import Variable": (
        "f: got 'an import of airflow.models (line",
        "Read what it needs in another task",
    ),
    "@train_job\ndef f():\n    reads_connection()": (
        "f: got 'an import of airflow.sdk (line 29); it is used by reads_connection (line 28)'",
        "Read what it needs in another task",
    ),
    **{
        f"from airflow_trainer_provider{module} import {name}\n@train_job\ndef f():\n    return {name}": (
            f"f: got '{name} of airflow_trainer_provider{module or '.' + name} (line 31)'",
            "Pass its value",
        )
        for module, name in (
            ("", "JAXJobOperator"),
            ("", "version"),
            (".version", "__version__"),
            (".training.server", "start"),
        )
    },
    "@train_job\ndef f():\n    from airflow_trainer_provider import errors": (
        "f: got 'an import of airflow_trainer_provider.errors (line",
        "Read what it needs in another task",
    ),
    "@sdk.task\ndef g():\n    pass\n@train_job\ndef f():\n    g()": (
        "f: got 'sdk of airflow.sdk (line 5); it is used by g",
        "Pass",
    ),
    "@train_job\ndef f():\n    return NAME": (
        "f: got 'NAME (line 23), which is bound in a block of for (line 23)'",
        "Bind NAME by a statement of its own",
    ),
    "@train_job\ndef f():\n    return TEXT": ("f: got 'TEXT (line 25), which is bound in a block of with", "Bind TEXT"),
    **{
        f"D = {{}}\n{text}\n@train_job\ndef f():\n    return D": (
            f"f: got 'D, which is changed in a block of {kind} (line 32)'",
            "Make D by a function that returns it, in a module of include=",
        )
        for text, kind in {
            "for K in 'ab':\n    D[K] = 1": "for",
            "for D['a'] in 'ab':\n    pass": "for",
            "while not D:\n    D.update(a=1)": "while",
            "with open(__file__):\n    if True:\n        [D.update(a=1) for _ in 'a']": "with",
            "match D:\n    case _:\n        os.path.walk(D) if D else D.setdefault('a', 1)": "match",
        }.items()
    },
    "D = {}\ndef fill():\n    D['a'] = Variable\nfill()\n@train_job\ndef f():\n    return D": (
        "f: got 'Variable of airflow.sdk (line 6); it is used by D (line 34), by fill (line 32)'",
        "Pass its value",
    ),
    "R = []\ndef reg(x):\n    R.append(x)\n    return x\n@reg\n@train_job\ndef f():\n    return R": (
        "f: got 'R, which a decorator of the function changes (line 35)'",
        "Make R by a function",
    ),
    "if True:\n    RATE = 2\n    @train_job\n    def f():\n        return RATE": (
        "f: got 'RATE (line 31), which is bound in the statement around the function (line 31)'",
        "Bind RATE by a statement of its own",
    ),
    "class Cfg:\n    @staticmethod\n    def f():\n        return Cfg\nf = Cfg.f": (
        "f: got 'Cfg (line 31), which is bound in the statement around the function (line 31)'",
        "Bind Cfg by",
    ),
    "S = []\ndef outer():\n    S.append(1)\n    @train_job\n    def f():\n        return S\n    return f\n"
    "f = outer()": (
        "f: got 'outer (line 32), which is bound in the statement around the function (line 32); it is used by S",
        "Bind outer by",
    ),
    "def f(x):\n    return x\ndef helper(x):\n    return f(x)\ndef outer():\n    @train_job\n    def f(x):\n"
    "        return helper(x)\n    return f\nf = outer()": (
        "f: got 'another f (line 31); it is used by helper (line 33)'",
        "Rename one of them",
    ),
    "def outer():\n    @train_job\n    def f():\n        return X\n    return f\nfunction = outer()\nX, f = 1, len\n"
    "f = function": ("f: got 'another f (line 37)'", "Rename one of them"),
    "def outer():\n    @train_job\n    def f(a=RATE):\n        return a\n    return f\nRATE = 3\nf = outer()": (
        "f: got 'RATE in a default value or an annotation, bound or changed below it (line 36)'",
        "Move that above the function that it stands in",
    ),
    "R = {}\ndef outer():\n    @train_job\n    def f(*, a=len(R)):\n        return a\n    return f\nR['a'] = 1\n"
    "f = outer()": (
        "f: got 'R in a default value or an annotation, bound or changed below it (line 37)'",
        "pass it as an argument",
    ),
    "@train_job\ndef f():\n    return pow(2, 3)": (
        "f: got 'pow, which nothing at the top level of the file binds'",
        "Import it by its name: line 3 imports with *",
    ),
    "@train_job\ndef f():\n    return __file__": ("f: got '__file__, which names a file of the worker'", "Pass a path"),
    "HERE = os.path.dirname(__file__)\n@train_job\ndef f():\n    return HERE": (
        "f: got '__file__, which names a file of the worker; it is used by HERE (line",
        "Pass a path",
    ),
    "@train_job\ndef f():\n    return sqrt(4)": (
        "f: got 'sqrt, which nothing at the top level of the file binds'",
        "line 3 imports with *",
    ),
    "@train_job\ndef f():\n    return sibling.x": ("f: got 'a relative import (line 7)'", "Import it by its full name"),
    "@train_job\ndef f():\n    return beside.x": (
        "f: got 'beside, a module of yours (line 8)'",
        "Add include=['beside']",
    ),
    "run = train_job\n@run\n@other\ndef f():\n    pass": ("f: got 'the decorator @other'", "Drop it"),
}


@pytest.fixture
def load(dag_file, tmp_path, monkeypatch):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "beside.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "dags"))

    def load(source):
        # The test's file is in no package, so the import would fail.
        return dag_file(HEAD.replace("from . import sibling", "sibling = None") + textwrap.dedent(source))

    return load


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_travel_is_refused_by_name_with_the_way_out(source, load, tmp_path):
    module = load(source)
    (tmp_path / "dags" / "my_dag.py").write_text(HEAD + source)
    what, way_out = REFUSED[source]

    with pytest.raises(SpecError) as refused:
        code_of(module.f, None, DECORATORS)

    assert what in str(refused.value)
    assert way_out in str(refused.value)


def test_all_that_is_wrong_is_named_at_once(load):
    module = load("@train_job\ndef f():\n    return NAME, Variable, no_such_name")

    with pytest.raises(SpecError) as refused:
        code_of(module.f, None, DECORATORS)

    assert len(refused.value.problems) == 3
    assert "no_such_name, which nothing" in str(refused.value)


def test_a_function_whose_file_is_gone_or_has_changed_is_refused(load, tmp_path):
    module = load("@train_job\ndef f():\n    pass")
    for text in ("x = 1\n" * 50, "def f(:\n"):
        (tmp_path / "dags" / "my_dag.py").write_text(text)
        with pytest.raises(SpecError, match="a function whose source is in a file, as it was"):
            code_of(module.f, None, DECORATORS)
    scope = {}
    exec("def f():\n    pass", scope)
    with pytest.raises(SpecError, match="code of <string>"):
        code_of(scope["f"], None, DECORATORS)


def test_a_decorator_above_or_of_another_name_is_none_of_the_functions(load):
    module = load("@other\n@train_job(x=1)\ndef f():\n    pass\nrun = train_job\n@run\ndef g():\n    pass\n")

    assert "@" not in code_of(module.f, None, DECORATORS).files["dag/my_dag.py"]
    assert "@" not in code_of(module.g, None, DECORATORS).files["dag/my_dag.py"]


class _Thing:
    pass


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({1, 2}, "a value of type set at its top"),
        ([1, {"a": [_Thing()]}], "test_refusals._Thing at [1]['a'][0]"),
        ({"a": {3: 4}}, "a key of type int at ['a']"),
        (b"x", "a value of type bytes"),
        (float("nan"), "the number nan, which JSON does not have, at its top"),
        ([float("-inf")], "the number -inf"),
        (2**64, "a number of more than 64 bits"),
        ("\ud800", "text that is not Unicode"),
        (functools.reduce(lambda inner, _: [inner], range(200), []), "more than 100 levels"),
    ],
)
def test_arguments_that_json_does_not_have_are_refused_with_their_place(value, what):
    with pytest.raises(SpecError) as refused:
        check_arguments({"rows": value})

    assert str(refused.value).count("rows: got ") == 1
    assert what in str(refused.value)
    assert "Pass JSON values" in str(refused.value)


def test_values_that_json_has_are_taken():
    check_arguments({"a": [None, True, 1, 1.5, "x", (1, 2), {"b": []}], "b": 2**64 - 1, "c": -(2**63)})
