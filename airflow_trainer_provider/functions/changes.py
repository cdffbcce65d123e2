"""Finds the top-level statements of a file that change a value which other statements bind: they are copied with it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache

from airflow_trainer_provider.functions.calls import Callees, base_of, root_of
from airflow_trainer_provider.functions.source import FunctionNode, SourceFile, Statement, bound_in, executed

#: Statements that are not copied, so that changes in them are refused. A call of a module's function is no change here.
BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)
_PARTS = (ast.Attribute, ast.Subscript)


@lru_cache(maxsize=4)
def changes_of(file: SourceFile) -> Mapping[str, tuple[Statement, ...]]:
    """Name -> the top-level statements that change its value without binding it.

    :param file: a DAG file.
    """
    scanner = _Scanner(file)
    found: dict[str, list[Statement]] = {}
    for statement in file.statements:
        if not _is_for_scripts(statement.node):
            for name in scanner.changed_by(statement.node):
                found.setdefault(name, []).append(statement)
    return {name: tuple(statements) for name, statements in found.items()}


def _is_for_scripts(node: ast.stmt) -> bool:
    """Whether a statement runs only if the file is run as a script, and so neither in Airflow nor in the job."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'" and not node.orelse


class _Scanner:
    """Finds the names whose values a piece of a file changes, directly or through functions of the file."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._callees = Callees(file)
        self._effects_of: dict[tuple[FunctionNode, bool], frozenset[str]] = {}
        self._changing: dict[FunctionNode, bool] = {}

    def changed_by(self, node: ast.stmt) -> frozenset[str]:
        """The top-level names whose values a top-level statement changes.

        :param node: the statement.
        """
        return _closed(self._scan([*executed(node)], isinstance(node, BLOCKS)), self._aliases)

    @cached_property
    def _aliases(self) -> Mapping[str, set[str]]:
        return _aliases_in(each for statement in self._file.tree.body for each in executed(statement))

    def _scan(self, nodes: Collection[ast.AST], stays: bool = False) -> Iterator[str]:
        """The names whose values some code changes, including the code's own names.

        :param nodes: the nodes of the code's syntax tree.
        :param stays: whether the code cannot be copied. Then a bare call of a module's function does not count as a
            change of the module.
        """
        stays = stays or any(isinstance(each, ast.Name) and each.id in self._callees.airflow for each in nodes)
        bare = _bare(nodes)
        for each in nodes:
            if isinstance(each, _PARTS):
                yield from (
                    root_of(each) if not isinstance(each.ctx, ast.Load) else self._callees.changed_by_method(each)
                )
            elif isinstance(each, ast.AugAssign):
                yield from base_of(each.target)
            elif isinstance(each, ast.Call):
                yield from self._by_call(each, id(each) in bare, stays)
            elif isinstance(each, (FunctionNode, ast.ClassDef)):
                yield from self._by_definition(each)

    def _by_call(self, call: ast.Call, bare: bool, stays: bool) -> Iterator[str]:
        yield from self._callees.changed_object(call, bare, stays)
        functions = self._callees.of(call.func)
        for each in functions:
            yield from self._effects(each)
        if any(map(self._changes_arguments, functions)) or self._callees.may_change_arguments(call, bare):
            for argument in (*call.args, *(each.value for each in call.keywords)):
                yield from (name for name in base_of(argument) if self._callees.is_mutable(name))

    def _by_definition(self, node: FunctionNode | ast.ClassDef) -> Iterator[str]:
        """The names whose values register a definition: in its decorators, or in a class's bases and metaclass."""
        for decorator in node.decorator_list:
            yield from self._callees.registry(decorator)
            for each in self._callees.of(decorator.func if isinstance(decorator, ast.Call) else decorator):
                yield from self._effects(each, deep=True)
        if isinstance(node, ast.ClassDef):
            names, methods = self._callees.keepers_of(node)
            yield from names
            for each in methods:
                yield from self._effects(each, deep=True)

    def _effects(self, function: FunctionNode, deep: bool = False) -> frozenset[str]:
        """The top-level names whose values a call of a function changes.

        :param deep: whether the functions within it count as called as well, such as those that a decorator returns.
        """
        key = (function, deep)
        if key not in self._effects_of:
            # The function may be recursive.
            self._effects_of[key] = frozenset()
            nodes = _body(function, deep)
            assigned = {name for each in nodes if isinstance(each, ast.Global) for name in each.names}
            inner = [each for each in nodes if isinstance(each, FunctionNode)] if deep else []
            local = {name for each in (function, *inner) for name in bound_in(each)} - assigned
            self._effects_of[key] = (_closed(self._scan(nodes), _aliases_in(nodes)) - local) | assigned
        return self._effects_of[key]

    def _changes_arguments(self, function: FunctionNode) -> bool:
        if function not in self._changing:
            self._changing[function] = False
            nodes = _body(function, deep=False)
            names = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} - {"self"}
            self._changing[function] = bool(names & _closed(self._scan(nodes), _aliases_in(nodes)))
        return self._changing[function]


def _bare(nodes: Collection[ast.AST]) -> set[int]:
    """The ids of the calls that are whole statements; in ``a(b)(c)`` both calls are."""
    found = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    return found | {id(each.func) for each in nodes if isinstance(each, ast.Call) and id(each) in found}


def _body(function: FunctionNode, deep: bool) -> list[ast.AST]:
    walk = ast.walk if deep else executed
    return [each for statement in function.body for each in walk(statement)]


def _aliases_in(nodes: Iterable[ast.AST]) -> Mapping[str, set[str]]:
    """Name -> the names whose value it shares, in whole or in part: ``name = other["key"]``, ``for name in other``."""
    found: dict[str, set[str]] = {}
    for target, value in (pair for each in nodes for pair in _assigned(each)):
        for name in (part.id for part in ast.walk(target) if isinstance(part, ast.Name)):
            found.setdefault(name, set()).update(base_of(value))
    return found


def _assigned(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """The targets that a part of a syntax tree assigns, each with its value."""
    if isinstance(node, ast.Assign):
        return [pair for target in node.targets for pair in _pairs(target, node.value)]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value:
        return [(node.target, node.value)]
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return [(node.target, node.iter)]
    return []


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    tuples = (ast.Tuple, ast.List)
    if isinstance(target, tuples) and isinstance(value, tuples) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _closed(names: Iterable[str], aliases: Mapping[str, set[str]]) -> frozenset[str]:
    """The names, and all names whose values they share."""
    todo, found = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += aliases.get(name, ())
    return frozenset(found)
