"""The source of a DAG file: its top-level statements, and the names that they bind and read."""

from __future__ import annotations

import ast
import linecache
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import FunctionType
from typing import NamedTuple

#: With this import, annotations are not evaluated, so the names in them are not read.
FUTURE = "from __future__ import annotations"

_COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Names(NamedTuple):
    """The global names that a piece of source uses.

    :param binds: names that the statements themselves bind.
    :param reads: names that the statements, and the functions within them, read.
    :param assigns: names that functions within the statements assign after a ``global`` statement.
    """

    binds: frozenset[str]
    reads: frozenset[str]
    assigns: frozenset[str]


def names_of(text: str) -> Names:
    """The global names of a piece of source from the top level of a file.

    :param text: whole statements.
    :raises SyntaxError: the text is not valid Python.
    """
    table = symtable.symtable(_with_scopes(text), "<piece>", "exec")
    children = table.get_children()
    inner = [symbol for child in children for symbol in _globals(child)]
    # A walrus in a comprehension binds its name in the scope around the comprehension.
    here = [*table.get_symbols()]
    here += (symbol for child in children if child.get_name() in _COMPREHENSIONS for symbol in _globals(child))
    binds = frozenset(_bound(here))
    return Names(
        binds=binds,
        reads=frozenset(each.get_name() for each in (*here, *inner) if each.is_referenced())
        | (_augmented(text) & binds),
        assigns=frozenset(_bound(inner)) - binds,
    )


def _augmented(text: str) -> set[str]:
    """The names that ``+=`` and similar operators both read and bind; in a symbol table they are only bound."""
    targets = (each.target for each in ast.walk(ast.parse(text)) if isinstance(each, ast.AugAssign))
    return {each.id for each in targets if isinstance(each, ast.Name)}


def _with_scopes(text: str) -> str:
    """Source in which each comprehension has its own symbol table. Since Python 3.12 only generators have one."""
    return ast.unparse(_Scopes().visit(ast.parse(text))) if sys.version_info >= (3, 12) else text


class _Scopes(ast.NodeTransformer):
    """Replaces comprehensions with generator expressions that use the same names."""

    def _generator(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        element = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
        return ast.GeneratorExp(element, node.generators)

    visit_ListComp = visit_SetComp = visit_DictComp = _generator


def _bound(symbols: Iterable[symtable.Symbol]) -> Iterator[str]:
    return (each.get_name() for each in symbols if each.is_assigned() or each.is_imported())


def _globals(table: symtable.SymbolTable) -> Iterator[symtable.Symbol]:
    yield from (symbol for symbol in table.get_symbols() if symbol.is_global())
    for child in table.get_children():
        yield from _globals(child)


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement at the top level of a file.

    :param node: the statement's syntax tree.
    :param text: the statement's source, with its decorators.
    :param line: the statement's first line.
    :param lazy: whether annotations in the statement are not evaluated.
    """

    node: ast.stmt
    text: str
    line: int
    lazy: bool

    @cached_property
    def names(self) -> Names:
        """The global names that the statement uses."""
        return names_of(f"{FUTURE}\n{self.text}" if self.lazy and not self.is_future else self.text)

    @cached_property
    def in_annotations(self) -> frozenset[str]:
        """The names that occur only in annotations, which are evaluated only if a library does so.

        Libraries evaluate the annotations of a class's fields, and of functions that they decorate.
        """
        found: list[ast.expr | None] = []
        for each in executed(self.node) if self.lazy else ():
            if isinstance(each, ast.AnnAssign) and each is not self.node:
                found.append(each.annotation)
            elif isinstance(each, FunctionNode) and each.decorator_list:
                found += annotations_of(each)
        return frozenset(name for each in found if each for name in names_in(each)) - self.names.reads

    @property
    def is_future(self) -> bool:
        """Whether the statement is a ``__future__`` import, which applies to the whole file."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


class SourceFile:
    """A Python file that was read.

    :param path: the file's path.
    :param text: the file's content.
    :raises SyntaxError: the content is not valid Python.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.tree = ast.parse(text)
        self.has_lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in self.tree.body
        )

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements at the top level, in their order."""
        lazy = self.has_lazy_annotations
        return tuple(Statement(node, self.text_of(node), first_line(node), lazy) for node in self.tree.body)

    @cached_property
    def bindings(self) -> Mapping[str, tuple[Statement, ...]]:
        """Name -> the statements at the top level that bind it."""
        found: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for name in statement.names.binds:
                found.setdefault(name, []).append(statement)
        if ast.get_docstring(self.tree) is not None:
            found.setdefault("__doc__", []).append(self.statements[0])
        return {name: tuple(statements) for name, statements in found.items()}

    def text_of(self, node: ast.stmt) -> str:
        """The source of a statement, with its decorators.

        :param node: any statement of the file.
        """
        first, last = first_line(node), node.end_lineno or node.lineno
        lines = self.lines[first - 1 : last]
        # Offsets in a syntax tree are in bytes.
        lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()
        if first == node.lineno:
            lines[0] = lines[0].encode()[node.col_offset :].decode()
        return "\n".join(lines)

    def around(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements that contain a statement, from the outermost to the innermost.

        :param node: a statement of the file.
        """
        begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return [
            each
            for each in ast.walk(self.tree)
            if isinstance(each, ast.stmt)
            and each is not node
            and (each.lineno, each.col_offset) <= begin
            and (each.end_lineno or 0, each.end_col_offset or 0) >= end
        ]

    def function_at(self, name: str, line: int) -> FunctionNode | None:
        """The function that begins, with its decorators, at a line.

        :param name: the function's name.
        :param line: the first line, as in the function's code object.
        """
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode) and node.name == name and first_line(node) == line:
                return node
        return None


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, or of its first decorator.

    :param node: the statement.
    """
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a syntax tree that run when the code itself runs: all but the bodies of functions.

    :param node: the root of the syntax tree.
    """
    todo = [node]
    while todo:
        each = todo.pop()
        yield each
        if isinstance(each, FunctionNode):
            todo += [*each.decorator_list, *each.args.defaults, *filter(None, each.args.kw_defaults)]
        elif not isinstance(each, ast.Lambda):
            todo += ast.iter_child_nodes(each)


def names_in(node: ast.AST) -> set[str]:
    """The names in a part of a syntax tree.

    :param node: the part.
    """
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def annotations_of(function: FunctionNode) -> list[ast.expr]:
    """The annotations of a function's arguments and of its return value.

    :param function: the function.
    """
    arguments = (each for each in ast.walk(function.args) if isinstance(each, ast.arg))
    return [each for each in (*(each.annotation for each in arguments), function.returns) if each]


def bound_in(function: FunctionNode) -> Iterator[str]:
    """The local names of a function, without those of the functions within it.

    :param function: the function.
    """
    yield from (each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg))
    todo: list[ast.AST] = [*function.body]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, (FunctionNode, ast.ClassDef)):
            yield each.name
        if not isinstance(each, (FunctionNode, ast.ClassDef, ast.Lambda)):
            todo += ast.iter_child_nodes(each)


def source_of(function: FunctionType) -> SourceFile | None:
    """The file that a function was read from; None if its source is not available.

    :param function: any function.
    :raises SyntaxError: the file has changed since, and is no longer valid Python.
    """
    path = function.__code__.co_filename
    linecache.checkcache(path)
    # For a file in an archive, linecache gets the source from the module's loader.
    lines = linecache.getlines(path, function.__globals__)
    return _parsed(path, "".join(lines)) if lines else None


@lru_cache(maxsize=4)
def _parsed(path: str, text: str) -> SourceFile:
    return SourceFile(path, text)
