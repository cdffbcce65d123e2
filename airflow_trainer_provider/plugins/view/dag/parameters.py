"""The parameters of a run, and the differences between the parameters of two runs.

The parameters are what the task asked for, and the arguments and variables of its command, as Airflow stores them: with
secrets masked by the provider. Masked values do not count as parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from airflow_trainer_provider.plugins.view.dag.records import RunRecord
from airflow_trainer_provider.plugins.view.model.values import listing, mapping, number, shortened
from airflow_trainer_provider.text.redaction import redacted
from airflow_trainer_provider.text.secret_values import MASK

#: Keys of XCom ``request`` that are parameters, and such keys in its ``requested`` for each node.
_ASKED = ("image", "nodes", "processes_per_node", "gpus", "queue", "backend")
_EACH_NODE = ("gpu", "cpu", "memory_bytes")
#: The rendered fields that are read.
FIELDS = ("command", "args", "env", "presets")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
#: An assignment in the syntax of Hydra and similar tools.
_ASSIGNMENT = re.compile(r"[+~]{0,2}(?P<name>[A-Za-z_][\w./-]*)=(?P<value>.*)", re.DOTALL)
#: The minimum length of a run ID that is searched in values: a shorter one may be part of any word.
_SHORTEST_RUN_ID = 8
#: The maximum length of a shown value, and the maximum number of changes of one run.
_LONGEST = 100
MOST_CHANGES = 50
_DATES = ("%Y-%m-%dT%H:%M:%S", "%Y%m%dT%H%M%S", "%Y-%m-%d", "%Y%m%d")
_OWN = "\0"
#: The prefix of the text that Airflow stores for a field that is too long.
_TRUNCATED = "Truncated. "


class Value(NamedTuple):
    """A parameter's value.

    :param shown: the value as text.
    :param compared: the same text without the run's ID and date, which differ in each run.
    """

    shown: str
    compared: str


class Parameters(NamedTuple):
    """The parameters of a run.

    :param values: name of a parameter -> its value.
    :param is_complete: whether the values include the arguments and variables. Airflow keeps these only for a DAG's
        last runs, and only if they are not too long.
    """

    values: Mapping[str, Value]
    is_complete: bool


def parameters_of(run: RunRecord) -> Parameters:
    """The parameters of a run.

    :param run: the run.
    """
    # The fields were masked when they were stored. They are masked again, since this page shows them in another place.
    stored = {name: run.fields.get(name) for name in FIELDS if _is_whole(name, run.fields.get(name))}
    rendered = mapping(redacted(stored))
    found = redacted({**dict(_asked(mapping(run.task.xcoms.get("request")))), **_rendered(rendered)})
    values = {name: Value(text, _without_run(text, run)) for name, text in found.items() if MASK not in text}
    return Parameters(values, bool(run.fields) and len(stored) == len(FIELDS))


def _is_whole(name: str, value: Any) -> bool:
    """Whether Airflow has stored a field unchanged: a list that is too long becomes text, as a single preset is."""
    return not isinstance(value, str) or (name == "presets" and not value.startswith(_TRUNCATED))


def changes(before: Parameters, after: Parameters) -> list[dict[str, Any]] | None:
    """The parameters that differ; None if that is unknown, as Airflow does not keep all parameters.

    :param before: the parameters of one run.
    :param after: the parameters of another run.
    """
    old, new = before.values, after.values
    if not old or not new:
        return None
    are_complete = before.is_complete and after.is_complete
    names = {**new, **old} if are_complete else old.keys() & new.keys()
    found = [each for name in sorted(names) if (each := _change(name, old.get(name), new.get(name)))]
    return found[:MOST_CHANGES] if found or are_complete else None


def _change(name: str, old: Value | None, new: Value | None) -> dict[str, Any] | None:
    if (old and old.compared) == (new and new.compared):
        return None
    shown = {"from": old, "to": new}
    return {"name": name, **{end: shortened(value.shown, _LONGEST) if value else None for end, value in shown.items()}}


def options_of(arguments: Sequence[Any]) -> dict[str, str]:
    """Arguments by the names of their options; other arguments by their position.

    :param arguments: the words of a command line.
    """
    found: dict[str, list[str]] = {}
    places = 0
    left = [str(each) for each in reversed(arguments)]
    while left:
        argument = left.pop()
        option = _OPTION.fullmatch(argument) or _ASSIGNMENT.fullmatch(argument)
        if option:
            found.setdefault(option["name"], []).append(_value_of(option["value"], left))
        else:
            places += 1
            found[f"argument {places}"] = [argument]
    return {name: ", ".join(values) for name, values in found.items()}


def _value_of(given: str | None, left: list[str]) -> str:
    """The value of an option: given with it, or the next argument, which is then consumed; for a switch, ``on``."""
    if given is not None:
        return given
    return left.pop() if left and not _OPTION.fullmatch(left[-1]) else "on"


def _asked(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    each_node = mapping(request.get("requested"))
    for source, names in ((request, _ASKED), (each_node, _EACH_NODE)):
        for name in names:
            text = _plain(source.get(name))
            if text is not None:
                yield name, text


def _rendered(fields: Mapping[str, Any]) -> dict[str, str]:
    env = {str(name): text for name, each in mapping(fields.get("env")).items() if (text := _plain(each)) is not None}
    presets = fields.get("presets")
    named = ", ".join(map(str, listing(presets))) if listing(presets) else _plain(presets)
    return {
        **({"presets": named} if named else {}),
        **env,
        **options_of([*listing(fields.get("command")), *listing(fields.get("args"))]),
    }


def _plain(value: Any) -> str | None:
    """A text, a number or a boolean as text; None for any other value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or None
    if number(value) is None:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _without_run(text: str, run: RunRecord) -> str:
    names = [run.task.run_id] if len(run.task.run_id) >= _SHORTEST_RUN_ID else []
    for name in [*names, *_dates(run.at)]:
        text = text.replace(name, _OWN)
    return text


def _dates(at: datetime | None) -> list[str]:
    return [at.strftime(form) for form in _DATES] if at else []
