"""Regular expressions that read a script's progress and metrics from its lines."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong, wrong
from airflow_trainer_provider.spec.values.words import rendered_hint
from airflow_trainer_provider.training.progress import METRIC_NAME, METRIC_NAMES, MOST_METRICS

#: The names of the expressions that read the progress.
STEP, TOTAL_STEPS = "step", "total_steps"
#: The maximum length of an expression, in characters.
_MOST_PATTERN = 500
#: The maximum memory of a compiled expression, in bytes, and of its instructions. They bound the time for one line.
_MEMORY = 1 << 20
_MOST_INSTRUCTIONS = 2500
#: The name of the group with the value, for an expression with several groups.
_VALUE = "value"
_SYNTAX = "a regular expression in the syntax of RE2, which has neither lookaround nor back references"
_GROUPS = "a regular expression with exactly one group, or one group called 'value', around the number"


class Expression(NamedTuple):
    """A compiled regular expression.

    :param pattern: RE2's compiled pattern. Its time for a line is linear in the line's length.
    :param group: the number of the group with the value.
    """

    pattern: Any
    group: int

    def find(self, line: bytes) -> str | None:
        """The text of the value; None if the line does not contain one.

        :param line: a line, in UTF-8.
        """
        match = self.pattern.search(line)
        found = match[self.group] if match else None
        return None if found is None else found.decode("utf-8", "replace")


@functools.lru_cache(maxsize=1024)
def compiled(text: str) -> Expression:
    """Compile an expression.

    :param text: the regular expression.
    :raises ValueError: RE2 does not support the expression; or, with an empty message, the expression does not
        determine the group with the value.
    """
    # Imported here, since DAG files import the spec and need no RE2.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        pattern = re2.compile(text.encode(), options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise ValueError(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None
    if pattern.programsize > _MOST_INSTRUCTIONS:
        raise ValueError("the expression is too large; lower its numbers of repetitions")
    named = {_text(name): number for name, number in pattern.groupindex.items()}
    group = named.get(_VALUE) or (1 if pattern.groups == 1 else None)
    if group is None:
        raise ValueError("")
    return Expression(pattern, group)


def is_metric_name(name: Any) -> bool:
    """Whether a metric may have this name.

    :param name: any value.
    """
    return isinstance(name, str) and METRIC_NAME.fullmatch(name) is not None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _named(value: Any) -> Any:
    if not isinstance(value, Mapping):
        hint = rendered_hint(value) if isinstance(value, str) else None
        fix = hint or r'Write names and expressions, e.g. {"loss": "loss=([0-9.]+)"}.'
        raise wrong("a mapping of names to regular expressions", fix, value=type(value).__name__)
    if len(value) > MOST_METRICS:
        raise wrong(f"at most {MOST_METRICS} names", "Keep those that people look at.", value=f"{len(value)} names")
    problems = [Problem("", str(name)[:64], METRIC_NAMES, "Rename it.") for name in value if not is_metric_name(name)]
    problems += [
        Problem(name, type(text).__name__, "text", "Write a regular expression, in quotes.")
        for name, text in value.items()
        if not isinstance(text, str)
    ]
    if problems:
        raise all_wrong(problems)
    return value


def _readable(metrics: Mapping[str, str]) -> Mapping[str, str]:
    problems = [problem for name, text in metrics.items() if (problem := _problem(name, text))]
    if problems:
        raise all_wrong(problems)
    return metrics


def _problem(name: str, text: str) -> Problem | None:
    if len(text) > _MOST_PATTERN:
        fix = "Shorten it: it may match a part of the line."
        return Problem(name, f"{len(text)} characters", f"at most {_MOST_PATTERN} characters", fix)
    try:
        compiled(text)
    except ValueError as error:
        if not str(error):
            fix = "Put one pair of parentheses around the number, and write the others as (?:...)."
            return Problem(name, text, _GROUPS, fix)
        fix = f"RE2 says: {error}. Match the text beside the number itself, e.g. loss=([0-9.]+), or print a JSON line."
        return Problem(name, text, _SYNTAX, fix)
    return None


#: Name of a metric -> the regular expression whose group is its value.
Metrics = Annotated[Mapping[str, str], BeforeValidator(_named), AfterValidator(_readable)]
