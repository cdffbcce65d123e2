"""Functions of all kinds: what they return as a job, each in a process of its own."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from airflow_trainer_provider.functions.code import code_of

HEAD = """\
from __future__ import annotations

import json as j
import math, os.path
from collections import OrderedDict as OD
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Variable, task

if TYPE_CHECKING:
    from airflow.sdk import Context

try:
    import no_such_module_here
except ImportError:
    no_such_module_here = None

def train_job(*args, **kwargs):
    return args[0] if args else lambda function: function
"""

#: Name -> the rest of a DAG file, the arguments, the value.
FUNCTIONS = {
    "arguments": (
        """
        @train_job
        def f(a, /, b=2, *c, d, **e):
            return [a, b, c, d, e]
        """,
        ([1], {"d": 4, "x": 5}),
        [1, 2, [], 4, {"x": 5}],
    ),
    "aliased imports": (
        """
        @train_job()
        def f():
            return [j.dumps({'a': 1}), math.sqrt(4), os.path.join('a', 'b'), list(OD(a=1))]
        """,
        (),
        ['{"a": 1}', 2.0, "a/b", ["a"]],
    ),
    "an import within": (
        """
        @train_job
        def f():
            import string
            return string.digits
        """,
        (),
        "0123456789",
    ),
    "an import with a fallback": (
        """
        @train_job
        def f():
            return no_such_module_here is None
        """,
        (),
        True,
    ),
    "strings with # and quotes": (
        (
            "@train_job\n"
            "def f(x='#'):\n"
            "    # a comment\n"
            "    text = f'''\n"
            "# not a comment {x!r}\n"
            "\"{x}\" '''\n"
            "    return text"
        ),
        (),
        "\n# not a comment '#'\n\"#\" ",
    ),
    "a decorator of several lines": (
        """
        @train_job(
            num_nodes=2,  # )
            env={'A': ':'},
        )
        def f(): return 1
        """,
        (),
        1,
    ),
    "one line": (
        """
        @train_job
        def f(): return [é for é in 'ü']  # ö
        """,
        (),
        ["ü"],
    ),
    "recursion": (
        """
        @train_job
        def f(n=5):
            return 1 if n < 2 else n * f(n - 1)
        """,
        (),
        120,
    ),
    "helpers in a chain, below and above": (
        """
        def a(x):
            return b(x) + 1
        @train_job
        def f(x):
            return a(x)
        def b(x):
            return x * FACTOR
        FACTOR = 10
        """,
        ([4], {}),
        41,
    ),
    "helpers that call each other": (
        """
        def even(n):
            return n == 0 or odd(n - 1)
        def odd(n):
            return n > 0 and even(n - 1)
        @train_job
        def f():
            return even(10)
        """,
        (),
        True,
    ),
    "a decorated helper": (
        """
        import functools
        def twice(function):
            @functools.wraps(function)
            def inner(x):
                return 2 * function(x)
            return inner
        @twice
        def helper(x):
            return x + 1
        @train_job
        def f():
            return [helper(1), helper.__name__]
        """,
        (),
        [4, "helper"],
    ),
    "nested functions, lambdas and comprehensions": (
        """
        ALL = 3
        @train_job
        def f(n):
            def g(k):
                return [k + i for i in range(n)]
            return [sum(g(2)), (lambda m: m * ALL)(n), {k: v for k, v in zip('ab', g(0))}, (w := 7)]
        """,
        ([2], {}),
        [5, 6, {"a": 0, "b": 1}, 7],
    ),
    "default values": (
        """
        SIZES = (1, 2)
        @train_job
        def f(sizes=SIZES, *, more=len(SIZES)):
            return [sizes, more]
        """,
        (),
        [[1, 2], 2],
    ),
    "a dataclass": (
        """
        @dataclass
        class Config:
            rate: float = 0.1
            layers: list[Layer] = field(default_factory=list)
        @dataclass
        class Layer:
            size: int
        @train_job
        def f():
            return repr(Config(layers=[Layer(3)]))
        """,
        (),
        "Config(rate=0.1, layers=[Layer(size=3)])",
    ),
    "annotations that a library reads": (
        """
        import typing
        class Layer: ...
        class Net:
            first: Layer
        @train_job
        def f():
            return typing.get_type_hints(Net)['first'].__name__
        """,
        (),
        "Layer",
    ),
    "annotations of modules that the image lacks": (
        """
        import pytest as lacking
        class Row:
            at: lacking.Mark
            name: str = 'a'
        def g(x: lacking.Mark = None) -> lacking.Mark: return 1
        @train_job
        def f(x: lacking.Mark = None) -> lacking.Mark:
            return [g(), Row.name, 'lacking' in globals()]
        """,
        (),
        [1, "a", False],
    ),
    "default values, annotations and siblings of an enclosing function": (
        """
        import decimal
        steps = 3
        def outer():
            def other(rate):
                import decimal
                local = rate
                return local
            @train_job
            def f(steps=steps, rate: decimal.Decimal = None, local=steps):
                return [steps, local]
            return f
        f = outer()
        """,
        (),
        [3, 3],
    ),
    "names that are bound in other ways": (
        """
        squares = [(last := i) * i for i in range(3)]
        class A:
            name = __qualname__
        def load():
            global js
            import json as js
        @train_job
        def f():
            load()
            return [last, A.name, js.dumps(1)]
        """,
        (),
        [2, "A", "1"],
    ),
    "annotations of Airflow": (
        """
        @train_job
        def f(a: int, b: Context | None = None) -> dict[str, DAG]:
            return {'a': a}
        """,
        ([1], {}),
        {"a": 1},
    ),
    "a base class, super() and a class variable": (
        """
        class A:
            n = 1
            def m(self): return self.n
        class B(A):
            n = 2
            def m(self): return super().m() + C
        C = 40
        @train_job
        def f():
            return B().m()
        """,
        (),
        42,
    ),
    "globals that are changed": (
        """
        count = 0
        seen = {}
        seen['a'] = 1
        seen.update(b=2)
        count += 10
        def bump():
            global count, made
            count += 1
            made = 'x'
        @train_job
        def f():
            bump()
            seen['c'] = made
            return [count, seen]
        """,
        (),
        [11, {"a": 1, "b": 2, "c": "x"}],
    ),
    "changes of names that are bound together": (
        """
        A, B = {}, {}
        A['x'] = 1
        B['y'] = 2
        A['z'] = B['z'] = 3
        @train_job
        def f():
            return B
        """,
        (),
        {"y": 2, "z": 3},
    ),
    "changes by all kinds of statements": (
        """
        class C: a = 1
        D, L = {'x': 1}, [[1, 2], 3, 4]
        D['a'], D['b'] = 1, 2
        C.a: int = 3
        setattr(C, 'b', 4)
        E = L[0]
        del E[0], L[2]
        last = L.pop()
        D.setdefault('c', []).append(1)
        assert (D.update(d=1), True)[1]
        @train_job
        def f():
            return [C.a, C.b, D, L]
        """,
        (),
        [3, 4, {"x": 1, "a": 1, "b": 2, "c": [1], "d": 1}, [[2]]],
    ),
    "changes in if and try, and of what these bind": (
        """
        L, ITEMS = [3, 2, 1], {}
        try:
            CFG = no_such_module_here.CFG
        except AttributeError:
            CFG = {'a': 1}
        CFG['b'] = 2
        if L:
            for at in range(2):
                ITEMS[at] = at
        else:
            L.append(5)
        try:
            L.sort()
        finally:
            pass
        @train_job
        def f():
            return [L, len(ITEMS), CFG]
        """,
        (),
        [[1, 2, 3], 2, {"a": 1, "b": 2}],
    ),
    "changes of what is imported": (
        """
        import colorsys
        from calendar import Calendar as C
        colorsys.first = 5
        colorsys.__dict__.setdefault('parts', []).append(7)
        C.rate = 0.1
        values = colorsys.__dict__
        values.update(last='x')
        @train_job
        def f():
            return [colorsys.first, colorsys.parts[0], C.rate, colorsys.last]
        """,
        (),
        [5, 7, 0.1, "x"],
    ),
    "changes by calls": (
        """
        import functools, heapq, random
        from heapq import heappop
        LIST, CFG, STATE, made = [3, 5], {}, None, []
        heapq.heappush(LIST, 1)
        least = heappop(LIST)
        random.seed(3)
        def fill(config, key='a'):
            part = config
            part[key] = len(config)
        fill(CFG)
        def setup():
            def inner():
                global STATE
                STATE = 4
            inner()
            Thing().add(1)
        class Thing:
            def __init__(self): made.append(0)
            def add(self, n): made.append(n)
        setup()
        functools.partial(fill, CFG)('b')
        list(map(made.append, [2]))
        append = made.append
        append(3)
        @train_job
        def f():
            return [LIST, CFG, STATE, made, random.random()]
        """,
        (),
        [[3, 5], {"a": 0, "b": 1}, 4, [0, 1, 2, 3], 0.23796462709189137],
    ),
    "definitions that decorators and base classes keep": (
        """
        from functools import singledispatch
        @singledispatch
        def area(x): return 'any'
        @area.register
        def _(x: int): return 'int'
        R, NAMES = {}, []
        def reg(name):
            def keep(function):
                R[name] = function
                return function
            return keep
        @reg('a')
        def adam(): return 1
        class Registry(dict):
            def register(self, cls):
                self[cls.__name__] = cls
                return cls
        MODELS = Registry()
        @MODELS.register
        class Net: ...
        class Base:
            def __init_subclass__(cls): NAMES.append(cls.__name__)
        class A(Base): ...
        class B(A): ...
        class Plain: ...
        class Derived(Plain): ...
        @train_job
        def f():
            return [area(3), list(R), list(MODELS), NAMES, len(Plain.__subclasses__())]
        """,
        (),
        ["int", ["a"], ["Net"], ["A", "B"], 1],
    ),
    "what Airflow has in the file is no change": (
        """
        import logging, os, sys
        from airflow.sdk import dag
        log = logging.getLogger('x')
        CFG = {'rate': 1}
        sys.path.insert(0, os.path.dirname(__file__))
        @dag(schedule=None)
        def training():
            log.info('parsing')
            os.makedirs('.', exist_ok=True)
            @task
            def other(config):
                CFG['rate'] = 2
            copy = CFG.copy()
            copy['rate'] = 3
            other(CFG)
        training()
        with DAG('d', schedule=None):
            @task
            def late(config):
                log.setLevel(10)
                CFG.clear()
            late(CFG) >> late.override(task_id='b')(config=CFG)
            print(CFG)
            for each in CFG:
                late(each)
        if __name__ == '__main__':
            CFG.clear()
            sys.exit(training().test())
        @train_job
        def f():
            return [log.level, CFG, os.path.basename('a/b'), sys.argv[1:]]
        """,
        (),
        [0, {"rate": 1}, "b", []],
    ),
    "a global that only functions bind": (
        """
        @train_job
        def f():
            global net
            net = 1
            return g()
        def g():
            return net + 1
        """,
        (),
        2,
    ),
    "names bound together and twice": (
        """
        a, (b, *c) = 1, (2, 3, 4)
        d = e = a; g = d + 1
        g = g * 2
        @train_job
        def f():
            return [a, b, c, e, g]
        """,
        (),
        [1, 2, [3, 4], 1, 4],
    ),
    "a name bound in if and else": (
        """
        if len('ab') > 1:
            MODE = 'long'
        else:
            MODE = 'short'
        @train_job
        def f():
            return MODE
        """,
        (),
        "long",
    ),
    "a name of a builtin": (
        """
        def print(x):
            return [x]
        @train_job
        def f():
            return print(1)
        """,
        (),
        [1],
    ),
    "async": (
        """
        import asyncio
        @train_job
        async def f(x):
            await asyncio.sleep(0)
            return x
        """,
        ([3], {}),
        3,
    ),
    "within a function, a with and an if": (
        (
            "with DAG('d', schedule=None):\n"
            "  if True:\n"
            "    def outer():\n"
            "\n"
            "      @train_job(env={})\n"
            "      def f(n, text='''\n"
            "a\n"
            "'''):\n"
            "        '''Doc.\n"
            "\n"
            "more'''\n"
            "        return [text, f(n - 1) if n else j.dumps(1), f.__doc__]\n"
            "      return f\n"
            "    f = outer()"
        ),
        ([1], {}),
        ["\na\n", ["\na\n", "1", "Doc.\n\nmore"], "Doc.\n\nmore"],
    ),
    "tabs": (
        ("def outer():\n\t@train_job\n\tdef f():\n\t\tif True:\n\t\t\treturn 1\n\treturn f\nf = outer()"),
        (),
        1,
    ),
    "its own name and module": (
        """
        @train_job
        def f():
            return [__name__, f.__module__, f.__qualname__]
        """,
        (),
        ["trainer_function", "trainer_function", "f"],
    ),
    "unicode": (
        ("größe = 'ñ😀'\n@train_job\ndef f(é='\\u2028'):\n    return größe + é"),
        (),
        "ñ😀\u2028",
    ),
    "a form feed and line separators in strings": (
        ("X = 'a\x0cb\u2028c'\n\x0c\n@train_job\ndef f():\n    return X"),
        (),
        "a\x0cb\u2028c",
    ),
    "a pickle of its class": (
        """
        import pickle
        class Net:
            def __eq__(self, other): return type(self) is type(other)
        @train_job
        def f():
            return pickle.loads(pickle.dumps(Net())) == Net()
        """,
        (),
        True,
    ),
    "processes that are spawned": (
        """
        import multiprocessing
        def square(x):
            return x * x
        @train_job
        def f():
            with multiprocessing.get_context('spawn').Pool(1) as pool:
                return pool.map(square, [2, 3])
        """,
        (),
        [4, 9],
    ),
    "no value": (
        """
        @train_job
        def f():
            pass
        """,
        (),
        None,
    ),
    "a match, a walrus and star expressions": (
        """
        @train_job
        def f(x):
            match x:
                case {'a': [first, *rest]} if (n := len(rest)) > 1:
                    return [first, n, *rest]
        """,
        ([{"a": [1, 2, 3]}], {}),
        [1, 2, 2, 3],
    ),
    "an exception group of its own": (
        """
        class E(Exception):
            pass
        @train_job
        def f():
            try:
                raise E('x')
            except E as error:
                return str(error)
        """,
        (),
        "x",
    ),
    "a global that a call sets": (
        """
        STATE = None
        def setup():
            global STATE
            STATE = 4
        setup()
        @train_job
        def f():
            return STATE
        """,
        (),
        4,
    ),
    "an argument that a call extends": (
        """
        L = [1]
        def grow(items):
            items += [2]
        grow(L)
        @train_job
        def f():
            return L
        """,
        (),
        [1, 2],
    ),
    "a value that is extended by another name": (
        """
        L = {'a': [1]}
        E = L['a']
        E += [5]
        @train_job
        def f():
            return L
        """,
        (),
        {"a": [1, 5]},
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_returns_what_it_returns_in_the_dag_file(name, dag_file, run):
    source, call, value = FUNCTIONS[name]
    args, kwargs = call or ([], {})

    ended = run(dag_file(f"{HEAD}\n\n{textwrap.dedent(source)}\n").f, *args, **kwargs)

    assert ended.code == 0, ended.out
    assert ended.result == {"trainer_function": "f", "value": value}


def test_the_docstring_of_the_file_travels(dag_file, run):
    module = dag_file(f'"""The file."""\n{HEAD}\n@train_job\ndef f():\n    return __doc__\n')

    assert run(module.f).result["value"] == "The file."


def test_of_an_import_the_names_that_are_used_travel(dag_file):
    code = code_of(dag_file(f"{HEAD}\n@train_job\ndef f():\n    return math.pi\n").f, None, ("train_job",))

    source = code.files[code.source]
    assert "import math\n" in source
    assert "os.path" not in source


def test_annotations_that_are_evaluated_travel(dag_file, run):
    source = """
    from typing import Optional
    def train_job(function):
        return function
    class N: ...
    @train_job
    def f(n: Optional[N] = None) -> N:
        return 1
    """
    module = dag_file(textwrap.dedent(source))

    assert run(module.f).result["value"] == 1


def test_a_traceback_shows_the_lines_and_the_name_of_the_dag_file(dag_file, run):
    source = (
        HEAD
        + "\n# a comment\n" * 20
        + textwrap.dedent(
            """
        def load(rows):
            return rows[3]


        def dag():
            @train_job
            def f(rows):
                # Not the whole.
                text = '''
        # no comment
        '''
                return load(rows)
            return f


        f = dag()
        """
        )
    )
    lines = source.split("\n")

    ended = run(dag_file(source, "nightly-1.py").f, [1])

    assert ended.code == 1
    places = [line.strip() for line in ended.out.splitlines() if "line" in line]
    expected = [
        next(at for at, each in enumerate(lines, 1) if text in each) for text in ("return load(rows)", "rows[3]")
    ]
    assert [place.rpartition("/")[2] for place in places] == [
        f'nightly-1.py", line {expected[0]}, in f',
        f'nightly-1.py", line {expected[1]}, in load',
    ]
    assert "return load(rows)" in ended.out
    assert ended.out.splitlines()[0] == "Traceback (most recent call last):"
    assert ended.out.splitlines()[-1] == "IndexError: list index out of range"
    assert ended.result is None


def test_a_long_file_travels_in_part(dag_file, run):
    helpers = "\n".join(f"def h{n}(x):\n    return x + {n}\n" for n in range(1000))
    module = dag_file(f"{HEAD}{helpers}\n@train_job\ndef f(x):\n    return h999(x)\n")

    ended = run(module.f, 1)

    assert ended.result["value"] == 1000
    sent = code_of(module.f, None, ("train_job",)).files["dag/my_dag.py"]
    assert sent.count("def ") == 2
    assert sent.count("\n") == Path(module.__file__).read_text().count("\n")
