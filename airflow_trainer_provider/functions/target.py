"""Refuses, when the DAG file is parsed, functions that cannot run as a job, independent of the names that they use."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.functions.source import (
    FunctionNode,
    SourceFile,
    annotations_of,
    bound_in,
    names_in,
    source_of,
)

_PLAIN = "a function of a DAG file, written with def or async def"
_ALONE = "the decorator that makes it a job alone, below all others"


@dataclass(frozen=True)
class Target:
    """A function that is to run as a job.

    :param name: the function's name.
    :param node: the function's syntax tree.
    :param file: the file with the function.
    :param hidden: names of builtins that have another meaning in the file.
    """

    name: str
    node: FunctionNode
    file: SourceFile
    hidden: frozenset[str]


def target_of(function: Any, decorators: Collection[str]) -> Target:
    """Find a function's source.

    :param function: the decorated function.
    :param decorators: the names of the decorators that run a function as a job.
    :raises SpecError: it is not a plain function, or its source is not available.
    """
    if not isinstance(function, FunctionType):
        raise _refused(getattr(function, "__name__", "the function"), type(function).__name__, _PLAIN, "Write a def.")
    name = function.__name__
    if hasattr(function, "__wrapped__"):
        raise _other_decorators(name, inspect.unwrap(function), decorators)
    if kind := _wrong_kind(function):
        raise _refused(name, *kind)
    closure = [each for each in function.__code__.co_freevars if each != function.__code__.co_name]
    if closure:
        raise SpecError([_of_closure(name, each) for each in closure])
    file = _file(function)
    node = file.function_at(function.__code__.co_name, function.__code__.co_firstlineno) if file else None
    if file is None or node is None:
        allowed = "a function whose source is in a file, as it was when that was imported"
        raise _refused(name, f"code of {function.__code__.co_filename}", allowed, "Write it into the DAG file.")
    problems = [*_decorators(node, decorators), *_of_outer_functions(file, node)]
    if problems:
        raise SpecError(problems)
    return Target(node.name, node, file, _hidden_by(function))


def _hidden_by(function: FunctionType) -> frozenset[str]:
    names = {*dir(builtins)} & {*function.__globals__}
    return frozenset(each for each in names if not each.startswith("__"))


def _refused(name: str, value: str, allowed: str, fix: str) -> SpecError:
    return SpecError([Problem(name, value, allowed, fix)])


def _other_decorators(name: str, wrapped: Any, decorators: Collection[str]) -> SpecError:
    """The error for a function that another decorator has wrapped."""
    file = _file(wrapped) if isinstance(wrapped, FunctionType) else None
    node = file.function_at(wrapped.__code__.co_name, wrapped.__code__.co_firstlineno) if file else None
    problems = list(_decorators(node, decorators)) if node else []
    return SpecError(problems or [_decorated(name, "another decorator")])


def _wrong_kind(function: FunctionType) -> tuple[str, str, str] | None:
    if function.__code__.co_name == "<lambda>":
        return "a lambda", _PLAIN, "Write a def, and return the value."
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a generator (it has a yield)", "a function that returns its value", "Return a list instead."
    return None


def _of_closure(name: str, variable: str) -> Problem:
    allowed = "names of the function itself, and of the top level of the file"
    fix = f"Pass {variable} as an argument, or move it to the top level of the file."
    return Problem(name, f"the variable {variable} of an enclosing function", allowed, fix)


def _file(function: FunctionType) -> SourceFile | None:
    try:
        return source_of(function)
    except SyntaxError:
        return None


def _decorated(name: str, decorator: str) -> Problem:
    fix = "Drop it, and call what it does within the function."
    return Problem(name, f"the decorator {decorator}", _ALONE, fix)


def _decorators(node: FunctionNode, decorators: Collection[str]) -> Iterator[Problem]:
    """Decorators that change the function itself: those below the provider's decorator."""
    called = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    ours = [at for at, each in enumerate(called) if ast.unparse(each).rpartition(".")[2] in decorators]
    if not ours and len(called) <= 1:
        # The file may import the provider's decorator under another name.
        return
    for each in node.decorator_list[ours[-1] + 1 if ours else 0 :]:
        yield _decorated(node.name, f"@{ast.unparse(each)}")


def _of_outer_functions(file: SourceFile, node: FunctionNode) -> Iterator[Problem]:
    """Problems of default values and annotations that use variables of an enclosing function."""
    outer = [each for each in file.around(node) if isinstance(each, FunctionNode)]
    local = {name for each in outer for name in bound_in(each)} - {node.name}
    used = {name for part in evaluated_outside(file, node) for name in names_in(part)}
    return (_of_closure(node.name, each) for each in sorted(used & local))


def evaluated_outside(file: SourceFile, node: FunctionNode) -> list[ast.expr]:
    """The parts of a function that are evaluated at its definition: default values and annotations.

    :param file: the file with the function.
    :param node: the function's syntax tree.
    """
    parts = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return parts if file.has_lazy_annotations else [*parts, *annotations_of(node)]
