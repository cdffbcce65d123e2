"""Selects the code of a DAG file that is copied with a function: the top-level statements that it uses."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection
from pathlib import Path

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.functions.calls import is_airflows, modules_of
from airflow_trainer_provider.functions.changes import BLOCKS, changes_of
from airflow_trainer_provider.functions.runner import TRAINING
from airflow_trainer_provider.functions.source import FUTURE, FunctionNode, Names, SourceFile, Statement, names_of
from airflow_trainer_provider.functions.target import Target, evaluated_outside

_IMPORTS = (ast.Import, ast.ImportFrom)
_BUILTINS = frozenset({*dir(builtins), "__builtins__"})
#: Names that are defined in the body of every class.
_OF_CLASSES = frozenset({"__qualname__", "__module__", "__annotations__"})
#: Folders of installed packages.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_ARGUMENT = "Pass its value as an argument."
_USABLE = "imports, functions, classes and values at the top level of the DAG file"


def slice_of(target: Target, included: Collection[str]) -> str:
    """The source of a function and of the statements that it uses, with the line numbers of the DAG file.

    :param target: the function.
    :param included: names of the modules that are copied as well.
    :raises SpecError: the function uses names that cannot be copied; the error lists each with the remedy.
    """
    slicer = _Slicer(target, included)
    slicer.follow()
    if slicer.problems:
        raise SpecError(list(dict.fromkeys(slicer.problems)))
    return slicer.text()


class _Slicer:
    """Follows the names that a function uses.

    :param problems: one problem for each name that cannot be copied.
    """

    def __init__(self, target: Target, included: Collection[str]) -> None:
        self._target = target
        self._file: SourceFile = target.file
        self._included = included
        #: The statements that contain the function.
        self._around = self._file.around(target.node)
        self.problems: list[Problem] = []
        #: The statements to copy, each with the names that are needed from it.
        self._chosen: dict[Statement, set[str]] = {}
        #: Names that functions assign after a ``global`` statement, which no top-level statement needs to bind.
        self._assigned: set[str] = set()
        self._unbound: dict[str, str] = {}

    def follow(self) -> None:
        """Select the statements to copy."""
        node, name = self._target.node, self._target.name
        if any(isinstance(each, FunctionNode) for each in self._around):
            self._follow_early()
        self._check_imports(node, name)
        text = self._function_text()
        self._follow(names_of(f"{FUTURE}\n{text}" if self._file.has_lazy_annotations else text), name)
        for statement in self._chosen:
            in_part = isinstance(statement.node, _IMPORTS) or statement.node in self._around
            if not in_part and name in statement.names.binds:
                self._refuse_name(statement, name)
        self._report_unbound()

    def _follow_early(self) -> None:
        """Select the statements for the default values of an inner function, which the job evaluates earlier."""
        node, name = self._target.node, self._target.name
        parts = evaluated_outside(self._file, node)
        reads = frozenset(each for part in parts for each in names_of(ast.unparse(part)).reads)
        self._follow(Names(frozenset(), reads, frozenset()), name)
        for statement, needed in self._chosen.items():
            if statement.line > node.lineno:
                what = f"{', '.join(sorted(needed))} in a default value or an annotation, bound or changed below it"
                fix = "Move that above the function that it stands in, or pass it as an argument."
                self._refuse(name, f"{what} (line {statement.line})", "values of the lines above", fix)

    def text(self) -> str:
        """The source with the selected statements."""
        lines = [""] * len(self._file.lines)
        for statement in self._file.statements:
            if statement.is_future:
                _place(lines, statement.line, statement.text)
            elif statement in self._chosen:
                _place(lines, statement.line, _part(statement, self._chosen[statement]))
        node = self._target.node
        text = self._function_text()
        # The line before an indented function belongs to the enclosing statement, which is not copied.
        _place(lines, node.lineno - bool(node.col_offset), text)
        return "\n".join(lines).rstrip("\n") + "\n"

    def _function_text(self) -> str:
        """The function without its decorators. An indented function gets ``if 1:`` as its enclosing statement."""
        node = self._target.node
        lines = self._file.lines[node.lineno - 1 : node.end_lineno]
        # Offsets in a syntax tree are in bytes.
        lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()
        return "\n".join(["if 1:", *lines] if node.col_offset else lines)

    def _follow(self, names: Names, user: str) -> None:
        """Select the statements that bind names, and the statements that these need in turn.

        :param user: the function or statement that uses the names, for errors.
        """
        self._assigned |= names.assigns
        for name in sorted(names.reads | names.assigns):
            bindings = self._file.bindings.get(name, ())
            if name == self._target.name and self._is_own(user):
                continue
            if name == self._target.name and bindings:
                self._refuse_name(bindings[0], user)
                continue
            if name == "__file__":
                fix = (
                    "Pass a path that the job's pods have as an argument; code beside the DAG file travels by include=."
                )
                self._refuse(user, "__file__, which names a file of the worker", _USABLE, fix)
            elif not bindings and (name not in _BUILTINS | _OF_CLASSES or name in self._target.hidden):
                self._unbound.setdefault(name, user)
            for statement in bindings:
                self._choose(statement, name, user)

    def _is_own(self, user: str) -> bool:
        """Whether the function's name, where it is used, refers to the function itself."""
        scopes = [each for each in self._around if isinstance(each, (FunctionNode, ast.ClassDef))]
        return not scopes or (user == self._target.name and isinstance(scopes[-1], FunctionNode))

    def _refuse_name(self, statement: Statement, user: str) -> None:
        what = f"another {self._target.name} (line {statement.line})"
        self._refuse(user, what, "one meaning of the function's name at the top level", "Rename one of them.")

    def _choose(self, statement: Statement, name: str, user: str) -> None:
        is_new = statement not in self._chosen
        needed = self._chosen.setdefault(statement, set())
        if name in needed:
            return
        needed.add(name)
        where = f"{name} (line {statement.line})"
        if isinstance(statement.node, _IMPORTS):
            self._check_import(statement.node, {name}, user)
        elif problem := self._not_alone(statement.node):
            fix = f"Bind {name} by a statement of its own at the top level, or pass it as an argument."
            self._refuse(user, f"{where}, which is bound in {problem}", _USABLE, fix)
            return
        elif is_new:
            self._check_imports(statement.node, f"{user}, by {where}")
            self._follow(statement.names, f"{user}, by {where}")
            self._try(statement.in_annotations)
        for change in changes_of(self._file).get(name, ()):
            if change not in self._file.bindings[name]:
                self._follow_change(change, name, user)

    def _follow_change(self, change: Statement, name: str, user: str) -> None:
        """Select a statement that changes the value of a name, such as ``name[key] = ...`` and ``name.append(...)``."""
        if problem := self._not_alone(change.node):
            what = f"{name}, which is changed in {problem}"
        elif change.node is self._target.node:
            what = f"{name}, which a decorator of the function changes (line {change.line})"
        else:
            self._choose(change, name, user)
            return
        fix = (
            f"Make {name} by a function that returns it, in a module of include=, or in the function itself; or pass "
            "it as an argument."
        )
        self._refuse(user, what, _USABLE, fix)

    def _not_alone(self, node: ast.stmt) -> str | None:
        """Why a statement cannot be copied; None if it can."""
        if isinstance(node, BLOCKS):
            return f"a block of {type(node).__name__.removeprefix('Async').lower()} (line {node.lineno})"
        return f"the statement around the function (line {node.lineno})" if node in self._around else None

    def _try(self, names: Collection[str]) -> None:
        """Select what names in annotations need, if it can be copied: only some libraries evaluate annotations."""
        for name in sorted(names):
            chosen = {statement: set(names) for statement, names in self._chosen.items()}
            state = (list(self.problems), set(self._assigned), dict(self._unbound))
            self._follow(Names(frozenset(), frozenset({name}), frozenset()), self._target.name)
            fails = len(self.problems) > len(state[0]) or len(self._unbound) > len(state[2])
            if fails or any(map(self._may_lack, self._chosen.keys() - chosen.keys())):
                self._chosen = chosen
                self.problems, self._assigned, self._unbound = state

    def _may_lack(self, statement: Statement) -> bool:
        """Whether a statement imports a module that the image may not have."""
        roots = {each.partition(".")[0] for each in _modules(statement.node)}
        return not roots <= {*sys.stdlib_module_names, *self._included}

    def _check_imports(self, node: ast.stmt, user: str) -> None:
        """Refuse imports of Airflow within a statement, since the job's image does not have Airflow."""
        for each in ast.walk(node):
            if isinstance(each, _IMPORTS):
                for module in _modules(each):
                    if is_airflows(module):
                        fix = "Read what it needs in another task, and pass that as an argument."
                        self._refuse(user, f"an import of {module} (line {each.lineno})", _USABLE, fix)

    def _check_import(self, node: ast.Import | ast.ImportFrom, names: Collection[str], user: str) -> None:
        if isinstance(node, ast.ImportFrom) and node.level:
            fix = "Import it by its full name, with include=, or from the image."
            self._refuse(user, f"a relative import (line {node.lineno})", "absolute imports", fix)
            return
        for module in _modules(_needed(node, names)):
            root = module.partition(".")[0]
            if is_airflows(module):
                self._refuse(user, f"{', '.join(names)} of {module} (line {node.lineno})", _USABLE, _ARGUMENT)
            elif module != TRAINING and root not in self._included and _is_beside(root, self._file.path):
                fix = f"Add include=[{root!r}]; or import it within the function, where the image of the job has it."
                allowed = "modules that the job's image has, and those of include="
                self._refuse(user, f"{root}, a module of yours (line {node.lineno})", allowed, fix)

    def _report_unbound(self) -> None:
        stars = [each.line for each in self._file.statements if _is_star(each.node)]
        for name, user in self._unbound.items():
            if name in self._assigned:
                continue
            fix = "Correct the name, or bind it at the top level."
            if stars:
                fix = f"Import it by its name: line {stars[0]} imports with *, which does not travel."
            self._refuse(user, f"{name}, which nothing at the top level of the file binds", _USABLE, fix)

    def _refuse(self, user: str, what: str, allowed: str, fix: str) -> None:
        name, _, path = user.partition(", ")
        value = f"{what}; it is used {path}" if path else what
        self.problems.append(Problem(name, value, allowed, fix))


def _modules(node: ast.stmt) -> list[str]:
    found = [module for _, module in modules_of(node)] if isinstance(node, _IMPORTS) else []
    return list(dict.fromkeys(found))


def _needed(node: ast.Import | ast.ImportFrom, names: Collection[str]) -> ast.Import | ast.ImportFrom:
    """The import statement with only the needed names."""
    aliases = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in names]
    if isinstance(node, ast.ImportFrom):
        return ast.ImportFrom(module=node.module, names=aliases, level=node.level)
    return ast.Import(names=aliases)


def _part(statement: Statement, names: Collection[str]) -> str:
    """The part of a statement that is copied: of an import, only the needed names."""
    if isinstance(statement.node, _IMPORTS):
        return ast.unparse(_needed(statement.node, names))
    return statement.text


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _is_beside(root: str, path: str) -> bool:
    """Whether a module is in a folder of DAG files, so that an image does not have it by default."""
    folder = Path(path).parent
    bases = {folder, *(Path(each) for each in sys.path if each and Path(each) in folder.parents)}
    return root not in sys.stdlib_module_names and any(
        (base / f"{root}.py").exists() or any((base / root).glob("*.py"))
        for base in bases
        if not _INSTALLED & {*base.parts}
    )


def _place(lines: list[str], line: int, text: str) -> None:
    """Write a piece of source at its original line numbers."""
    for at, part in enumerate(text.split("\n"), line - 1):
        lines[at] = f"{lines[at]}; {part}" if lines[at] else part
