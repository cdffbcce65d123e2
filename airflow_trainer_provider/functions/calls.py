"""Finds the functions that calls in a DAG file run, and whether a call changes its object or its arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from airflow_trainer_provider.functions.runner import TRAINING
from airflow_trainer_provider.functions.source import FunctionNode, SourceFile, names_in

#: Methods that change their object, wherever they are called. Any other method is assumed to change its object if the
#: call is a whole statement, which has no other purpose.
_CHANGING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem", "popleft"}
    | {"register", "remove", "reverse", "setdefault", "sort", "update"}
)
#: Methods that return a part of their object, or several parts.
_GETTERS = frozenset({"get", "setdefault", "values", "items", "pop"})
#: Functions and methods that only write output, and change nothing.
_WRITING = frozenset({"print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
#: Functions of Python that change their arguments and also return a value.
_TAKING = frozenset({"next", "heappop", "heapreplace", "heappushpop"})
_SETTING = frozenset({"setattr", "delattr"})
#: Methods of a class that run when an object of the class is created.
_CREATING = frozenset({"__new__", "__init__", "__post_init__"})
#: Decorators of Airflow whose functions run when the file is parsed.
_PARSED = frozenset({"dag", "task_group"})
_AIRFLOW = ("airflow", "airflow_trainer_provider")


def modules_of(node: ast.Import | ast.ImportFrom) -> list[tuple[ast.alias, str]]:
    """The names that a statement imports, each with its module.

    :param node: the statement.
    """
    if isinstance(node, ast.Import):
        return [(alias, alias.name) for alias in node.names]
    names = [node.module or ""] * len(node.names)
    if node.module == TRAINING.rpartition(".")[0]:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return list(zip(node.names, names, strict=True))


def is_airflows(module: str) -> bool:
    """Whether a module is part of Airflow or of this provider, so that a job does not have it.

    :param module: the module's full name.
    """
    return module.partition(".")[0] in _AIRFLOW and module != TRAINING


def root_of(node: ast.expr) -> Iterator[str]:
    """The name with which an expression such as ``name.a["b"].c("d")`` begins; nothing for a plain name.

    :param node: an expression.
    """
    inner = node
    while True:
        if isinstance(inner, (ast.Attribute, ast.Subscript, ast.Starred)):
            inner = inner.value
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            inner = inner.func
        else:
            break
    if isinstance(inner, ast.Name) and inner is not node:
        yield inner.id


def base_of(node: ast.expr) -> Iterator[str]:
    """The name whose value, or a part of it, an expression evaluates to.

    :param node: an expression.
    """
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GETTERS:
            node = node.func
        else:
            break
    if isinstance(node, ast.Name):
        yield node.id


class Callees:
    """The functions and classes of a file, by which calls are resolved.

    :param file: the file.
    """

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._nodes = [*ast.walk(file.tree)]
        self._classes: dict[str, list[ast.ClassDef]] = {}
        self._functions: dict[str, list[FunctionNode]] = {}
        self._methods: dict[str, list[FunctionNode]] = {}
        methods = set()
        for node in self._nodes:
            if isinstance(node, ast.ClassDef):
                self._classes.setdefault(node.name, []).append(node)
                for each in _methods(node):
                    self._methods.setdefault(each.name, []).append(each)
                    methods.add(each)
        for node in self._nodes:
            if isinstance(node, FunctionNode) and node not in methods:
                self._functions.setdefault(node.name, []).append(node)

    @cached_property
    def airflow(self) -> frozenset[str]:
        """The names of objects from Airflow: imports, and the operators and tasks that are created with them."""
        imports = (each for each in self._nodes if isinstance(each, (ast.Import, ast.ImportFrom)))
        found = {_bound(alias) for each in imports for alias, module in modules_of(each) if is_airflows(module)}
        made = [pair for each in self._nodes for pair in _made(each)]
        size = 0
        while size != len(found):
            size = len(found)
            found.update(*(names for names, makers in made if makers & found))
        return frozenset(found)

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(_bound(alias) for each in self._nodes if isinstance(each, ast.Import) for alias in each.names)

    @cached_property
    def _imported(self) -> frozenset[str]:
        found = (alias for each in self._nodes if isinstance(each, ast.ImportFrom) for alias in each.names)
        return self._modules | frozenset(map(_bound, found))

    @cached_property
    def _defined(self) -> frozenset[str]:
        return frozenset({*self._functions, *self._classes})

    def of(self, called: ast.expr) -> list[FunctionNode]:
        """The functions of the file that a call runs; none for a task of Airflow.

        :param called: the called expression.
        """
        if isinstance(called, ast.Attribute):
            return self._methods.get(called.attr, [])
        if not isinstance(called, ast.Name):
            return []
        found = [each for each in self._functions.get(called.id, ()) if self._runs(each)]
        for each in self._classes.get(called.id, ()):
            found += [method for method in _methods(each) if method.name in _CREATING]
        return found

    def _runs(self, function: FunctionNode) -> bool:
        made = [each for each in function.decorator_list if _callers(each) & self.airflow]
        return not made or any(_last(each) in _PARSED for each in made)

    def changed_object(self, call: ast.Call, bare: bool, stays: bool) -> Iterator[str]:
        """The name whose value a call changes: ``name.method(...)`` as a whole statement, or ``setattr(name, ...)``.

        :param call: the call.
        :param bare: whether the call is a whole statement.
        :param stays: whether the call cannot be copied.
        """
        function = call.func
        if _last(function) in _SETTING:
            yield from (name for each in call.args[:1] for name in base_of(each))
        elif bare and _last(function) not in _WRITING and not _is_path(function):
            if isinstance(function, ast.Name) and not {function.id} & (self._defined | self._imported):
                # It may be a method: ``append = ROWS.append``.
                yield function.id
            yield from (each for each in root_of(function) if not (stays and each in self._imported))

    def changed_by_method(self, node: ast.Attribute | ast.Subscript) -> Iterator[str]:
        """The name whose value a method such as ``name.append`` changes, even without a call: ``map(name.append, x)``.

        :param node: the method.
        """
        of_module = isinstance(node.value, ast.Name) and node.value.id in self._modules
        if isinstance(node, ast.Attribute) and node.attr in _CHANGING and not (of_module or _is_path(node)):
            yield from root_of(node)

    def may_change_arguments(self, call: ast.Call, bare: bool) -> bool:
        """Whether a call of a function that the file does not define may change the arguments.

        :param call: the call.
        :param bare: whether the call is a whole statement.
        """
        name = _last(call.func)
        if name in _TAKING:
            return True
        known = name in _WRITING or name in _SETTING or name in _CHANGING or name[:1].isupper()
        roots = _callers(call.func)
        return bare and not known and bool(roots & self._imported) and not roots & self.airflow

    def is_mutable(self, name: str) -> bool:
        """Whether a function that receives the value of a name may change that value.

        :param name: the name.
        """
        bindings = self._file.bindings.get(name, ())
        return not bindings or any(_makes_mutable(each.node) for each in bindings)

    def registry(self, decorator: ast.expr) -> Iterator[str]:
        """The name whose value registers the decorated function or class, as with ``@name.register``.

        :param decorator: the decorator of a function or a class.
        """
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        for name in root_of(called):
            if name not in self.airflow and (name not in self._modules or "regist" in _last(called)):
                yield name

    def keepers_of(self, node: ast.ClassDef) -> tuple[set[str], list[FunctionNode]]:
        """The base classes that register their subclasses, and the methods that are called for a new subclass.

        :param node: a class.
        """
        bases, metaclasses = self._ancestors(node)
        methods = [each for base in bases for each in _methods(base) if each.name == "__init_subclass__"]
        methods += [each for meta in metaclasses for each in _methods(meta) if each.name in _CREATING]
        names = {each.name for each in bases}
        return (names if methods or self._lists_subclasses else set()), methods

    @cached_property
    def _lists_subclasses(self) -> bool:
        return any(isinstance(each, ast.Attribute) and each.attr == "__subclasses__" for each in self._nodes)

    def _ancestors(self, node: ast.ClassDef) -> tuple[list[ast.ClassDef], list[ast.ClassDef]]:
        """The base classes of a class, direct and indirect, and the metaclasses, as far as the file defines them."""
        todo, bases, metaclasses = [node], list[ast.ClassDef](), list[ast.ClassDef]()
        while todo:
            each = todo.pop()
            found = [base for base in self._named(each.bases) if base not in (*bases, node)]
            bases += found
            todo += found
            metaclasses += self._named([word.value for word in each.keywords if word.arg == "metaclass"])
        return bases, metaclasses

    def _named(self, classes: list[ast.expr]) -> list[ast.ClassDef]:
        return [each for node in classes for name in base_of(node) for each in self._classes.get(name, ())]


def _methods(node: ast.ClassDef) -> list[FunctionNode]:
    return [each for each in node.body if isinstance(each, FunctionNode)]


def _made(node: ast.AST) -> Iterator[tuple[set[str], set[str]]]:
    """The names that a node of a syntax tree binds, and the names whose calls create their values."""
    if isinstance(node, ast.Assign):
        yield {name for each in node.targets for name in names_in(each)}, _callers(node.value)
    elif isinstance(node, ast.withitem) and node.optional_vars:
        yield names_in(node.optional_vars), _callers(node.context_expr)
    elif isinstance(node, FunctionNode):
        yield {node.name}, set().union(*map(_callers, node.decorator_list))


def _callers(node: ast.expr) -> set[str]:
    """The names with which an expression begins; for a call, also those of its function and its arguments."""
    found = {*root_of(node), *base_of(node)}
    if isinstance(node, ast.Call):
        found |= _callers(node.func).union(*map(_callers, node.args))
    return found


def _is_path(method: ast.expr) -> bool:
    """Whether a method belongs to ``sys.path``: changes of the worker's module paths do not apply to the job."""
    return isinstance(method, ast.Attribute) and ast.unparse(method.value) == "sys.path"


def _last(node: ast.expr) -> str:
    """The last name of a possibly called expression: ``c`` for ``a.b.c(...)``."""
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _makes_mutable(node: ast.stmt) -> bool:
    if isinstance(node, (FunctionNode, ast.Import)):
        return False
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
    if isinstance(value, ast.JoinedStr):
        return False
    try:
        hash(ast.literal_eval(value or node))
    except (ValueError, TypeError):
        return True
    return False
