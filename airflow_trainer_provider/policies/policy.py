"""A policy: the jobs that it applies to, and its rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.policies.amounts import amount, same
from airflow_trainer_provider.policies.field_path import ANY, MANIFEST, NAMED, FieldPath, parse_path, values_at
from airflow_trainer_provider.policies.pod_values import own_field
from airflow_trainer_provider.spec import check_part
from airflow_trainer_provider.spec.running.exit_codes import ExitCodes
from airflow_trainer_provider.spec.values.base import SpecModel, all_wrong, wrong
from airflow_trainer_provider.spec.values.words import Text

_KINDS = ("default", "required", "min", "max", "step", "allowed", "pattern", "locked", "forbidden")
#: The rules that are either true or not given.
_FLAGS = frozenset({"required", "forbidden"})
#: Syntax that the API server's regular expressions (RE2) do not support.
_NOT_IN_RE2 = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!>(#]|<[=!]|P[=>])|\\[1-9]|[*+?}]\+)")
_MOST_RULES = 200
_EXIT_CODES = ("run_policy", "exit_codes")
#: Rules that compare a value with others.
_COMPARING = frozenset({"min", "max", "step", "allowed", "pattern"})
_Texts = tuple[Text, ...]


@dataclass(frozen=True)
class Subject:
    """The properties of a job by which policies are chosen.

    :param namespace: the namespace in which the job would run in a cluster; None on this machine.
    :param dag_id: of the task.
    :param tags: of its DAG.
    :param framework: of the job; None where it is not known yet.
    """

    namespace: str | None = None
    dag_id: str = ""
    tags: Collection[str] = ()
    framework: str | None = None


class AppliesTo(SpecModel):
    """The jobs that a policy applies to: those that match all given properties. ``*`` stands for any text, ``?`` for
    any character.

    :param namespaces: of the cluster.
    :param dags: ids of DAGs.
    :param tags: of DAGs; one matching tag is enough.
    :param frameworks: names, without ``*``.
    """

    namespaces: _Texts = ()
    dags: _Texts = ()
    tags: _Texts = ()
    frameworks: _Texts = ()

    @field_validator("frameworks")
    @classmethod
    def _known(cls, names: _Texts) -> _Texts:
        for name in names:
            try:
                get_framework(name)
            except SpecError as error:
                problem = error.problems[0]
                raise wrong(problem.allowed, problem.fix, value=name) from None
        return names

    def matches(self, subject: Subject) -> bool:
        """Whether the policy applies to a job."""
        chosen_by = (
            (self.namespaces, [subject.namespace or ""]),
            (self.dags, [subject.dag_id]),
            (self.tags, subject.tags),
            (self.frameworks, [subject.framework or ""]),
        )
        return all(_any_matches(patterns, names) for patterns, names in chosen_by if patterns)


def _any_matches(patterns: _Texts, names: Collection[str]) -> bool:
    return any(re.fullmatch(glob_pattern(pattern), name) for pattern in patterns for name in names)


def glob_pattern(text: str) -> str:
    """The regular expression of a text in which ``*`` and ``?`` stand for any text and any character.

    :param text: of a policy's ``applies_to``.
    """
    return "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in text)


class Rule(SpecModel):
    """The requirements for one field.

    :param field: its path.
    :param reason: the reason for the rule, for users.
    :param default: the value for a job that has none.
    :param required: whether each job has to have a value.
    :param min: the smallest value; quantities of Kubernetes are compared as quantities.
    :param max: the largest value.
    :param step: the distance between the values that it may have, counted from ``min``, or from 0.
    :param allowed: the values that it may have.
    :param pattern: a regular expression that the whole value has to match.
    :param locked: the only value that the field may have; a job need not give it.
    :param forbidden: whether the field must not have a value.
    """

    field: Text
    reason: Text
    default: Any = None
    required: bool = False
    min: int | float | str | None = None
    max: int | float | str | None = None
    step: int | float | str | None = None
    allowed: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    pattern: Text | None = None
    locked: Any = None
    forbidden: bool = False

    @cached_property
    def path(self) -> FieldPath:
        """The field's path."""
        return parse_path(self.field)

    @property
    def locked_value(self) -> Any:
        """The value that the field is locked to, in the form of a spec: exit codes as ranges, in order."""
        below = self.path[len(_EXIT_CODES) :]
        if self.locked is None or self.path[: len(_EXIT_CODES)] != _EXIT_CODES:
            return self.locked
        codes = ExitCodes.model_validate(_nested(below, self.locked)).model_dump(mode="json")
        return next(value for _, value in values_at(codes, below))

    @property
    def kinds(self) -> list[str]:
        """The kinds of requirements in the rule: its fields that have a value."""
        is_given = {kind: getattr(self, kind) is not None for kind in _KINDS}
        return [kind for kind in _KINDS if (getattr(self, kind) if kind in _FLAGS else is_given[kind])]

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        try:
            path = parse_path(self.field)
        except SpecError as error:
            raise all_wrong(error.problems) from None
        own = own_field(path)
        if own:
            raise wrong("the field of the spec that says the same", f"Write {own}.", "field", self.field)
        self._check_kinds(path)
        self._check_form(path)
        self._check_bounds()
        self._check_pattern()
        for kind in ("default", "locked"):
            self._check_value(kind, path)
        return self

    def _check_kinds(self, path: FieldPath) -> None:
        kinds = self.kinds
        if not kinds:
            raise wrong(f"at least one of {', '.join(_KINDS)}", "Say what holds for the field.", value="none of them")
        alone = next((kind for kind in ("locked", "forbidden") if kind in kinds and len(kinds) > 1), None)
        if alone:
            raise wrong(f"no other rule beside {alone}", "Drop the others.", value=", ".join(kinds))
        if path == (MANIFEST,) and kinds != ["forbidden"]:
            raise wrong("forbidden alone for the field manifest", "Drop the others.", value=", ".join(kinds))

    def _check_form(self, path: FieldPath) -> None:
        """Refuse a value that can never be equal to the field, because the spec holds the field in another form."""
        if path[: len(_EXIT_CODES)] == _EXIT_CODES:
            kind = next((each for each in self.kinds if each in _COMPARING or (each == "locked" and ANY in path)), None)
            if kind:
                fix = "Lock run_policy.exit_codes, or one of its lists, to the codes."
                raise wrong("default, required, locked or forbidden for exit codes", fix, kind, getattr(self, kind))
        name = NAMED.get(path)
        for kind, values in (("locked", (self.locked,)), ("allowed", self.allowed or ())):
            if name and any(isinstance(each, Mapping) for each in values):
                fix = f"Write {self.field}.{name}, and rules of their own for its other fields."
                raise wrong(f"a name: a rule for {self.field} is one for its {name}", fix, kind, "a mapping")

    def _check_bounds(self) -> None:
        bounds = {
            kind: amount(getattr(self, kind)) for kind in ("min", "max", "step") if getattr(self, kind) is not None
        }
        for kind, bound in bounds.items():
            if bound is None:
                raise wrong('a number, or a quantity such as "64Gi"', "Correct it.", kind, getattr(self, kind))
        step = bounds.get("step")
        if step is not None and step <= 0:
            raise wrong("more than 0", "Correct it.", "step", self.step)
        least, most = bounds.get("min"), bounds.get("max")
        if least is not None and most is not None and least > most:
            raise wrong(f"at most max ({self.max})", "Lower min or raise max.", "min", self.min)

    def _check_pattern(self) -> None:
        if self.pattern is None:
            return
        try:
            re.compile(self.pattern, re.ASCII)
        except re.error as error:
            fix = f"Correct it: {error.msg}."
            raise wrong("a regular expression", fix, "pattern", self.pattern) from None
        if _NOT_IN_RE2.search(self.pattern):
            allowed = "a regular expression of RE2's syntax, which has no lookaround and no backreferences"
            fix = "Write several rules instead, or list the values in allowed."
            raise wrong(allowed, fix, "pattern", self.pattern)

    def _check_value(self, kind: str, path: FieldPath) -> None:
        value = getattr(self, kind)
        if value is None:
            return
        if ANY not in path:
            try:
                check_part(_nested(path, value))
            except SpecError as error:
                problem = error.problems[0]
                raise wrong(problem.allowed, problem.fix, kind, problem.value) from None
        for complaint in complaints(self, value) if kind == "default" else ():
            raise wrong(complaint, "Correct the default or the rule.", kind, value)


def _nested(path: FieldPath, value: Any) -> Any:
    """A value within the nested mappings that its path names."""
    for key in reversed(path):
        value = {key: value}
    return value


class Policy(SpecModel):
    """The content of a policy's file.

    :param description: the purpose of the policy.
    :param applies_to: the jobs that the policy applies to; all jobs if it is left out.
    :param rules: for fields.
    """

    description: Text | None = None
    applies_to: AppliesTo = AppliesTo()
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=_MOST_RULES)]


def complaints(rule: Rule, value: Any, *, least: bool = True) -> Iterator[str]:
    """The requirements of a rule for a value that the value does not meet.

    :param rule: its ``min``, ``max``, ``step``, ``allowed`` and ``pattern`` are checked.
    :param value: a plain value. Both a request and a limit are checked, and each item of a list.
    :param least: whether ``min`` and ``step`` are checked.
    """
    values = _single(value)
    for kind, is_right in (
        ("min", _at_least),
        ("max", _at_most),
        ("step", partial(_is_on_step, rule.min)),
        ("allowed", _is_allowed),
        ("pattern", _matches),
    ):
        bound = getattr(rule, kind)
        if kind in ("min", "step") and not least:
            continue
        if bound is not None and not all(is_right(each, bound) for each in values):
            yield wording(kind, bound)


def is_locked_to(value: Any, expected: Any) -> bool:
    """Whether a value is the one that a rule locks it to.

    :param value: a plain value; None for no value.
    :param expected: the value in the rule.
    """
    if isinstance(value, dict) and not isinstance(expected, dict) and value.keys() <= {"requests", "limits"}:
        found = [each for each in value.values() if each is not None]
        return bool(found) and all(same(each, expected) for each in found)
    return same(value, expected)


def wording(kind: str, bound: Any) -> str:
    """The requirement of a rule, in words.

    :param kind: of the rule, e.g. ``max``.
    :param bound: its value.
    """
    texts = {
        "min": f"at least {bound}",
        "max": f"at most {bound}",
        "step": f"in steps of {bound}",
        "pattern": f"text that matches {bound}",
        "locked": f"locked to {bound!r}",
        "required": "a value",
        "forbidden": "no value",
    }
    return f"one of {', '.join(map(str, bound))}" if kind == "allowed" else texts[kind]


def _single(value: Any) -> list[Any]:
    if isinstance(value, dict) and value.keys() <= {"requests", "limits"}:
        return [each for each in value.values() if each is not None]
    return [*value] if isinstance(value, (list, tuple)) else [value]


def _at_least(value: Any, bound: Any) -> bool:
    found, least = amount(value), amount(bound)
    return found is not None and least is not None and found >= least


def _at_most(value: Any, bound: Any) -> bool:
    found, most = amount(value), amount(bound)
    return found is not None and most is not None and found <= most


def _is_on_step(first: Any, value: Any, step: Any) -> bool:
    found, size = amount(value), amount(step)
    if found is None or size is None:
        return False
    return (found - (amount(first) or 0)) % size == 0


def _is_allowed(value: Any, allowed: tuple[Any, ...]) -> bool:
    return any(same(value, each) for each in allowed)


def _matches(value: Any, pattern: str) -> bool:
    return isinstance(value, (str, int, float)) and re.fullmatch(pattern, str(value), re.ASCII) is not None
