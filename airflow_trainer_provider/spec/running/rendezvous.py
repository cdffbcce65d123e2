"""Options of torchrun's rendezvous.

https://docs.pytorch.org/docs/stable/elastic/rendezvous.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong, wrong
from airflow_trainer_provider.spec.values.words import as_text, rendered_hint

#: Options of torchrun's rendezvous: the patterns of names and values, and the options that would move the rendezvous.
_OPTION = re.compile(r"[a-z][a-z0-9_]{0,62}")
_OPTION_VALUE = re.compile(r"[^\s,=]{1,253}")
_OWN_OPTIONS = frozenset({"is_host", "store_type"})
_LONGEST_OPTION, _MOST_OPTIONS = 63, 32


def _rendezvous_options(value: Any) -> Any:
    """The options of torchrun's rendezvous, with each value as text."""
    if not isinstance(value, Mapping):
        hint = rendered_hint(value) if isinstance(value, str) else None
        fix = hint or "Write names and values."
        raise wrong('a mapping, e.g. {"join_timeout": 300}', fix, value=type(value).__name__)
    problems = [problem for name, each in value.items() if (problem := _option_problem(name, as_text(each, name)))]
    if problems:
        raise all_wrong(problems)
    return {name: str(each) for name, each in value.items()}


def _option_problem(name: str, text: str | Problem) -> Problem | None:
    shown = name[:_LONGEST_OPTION]
    if name in _OWN_OPTIONS or not _OPTION.fullmatch(name):
        allowed = f"names of torchrun's --rdzv-conf other than {', '.join(sorted(_OWN_OPTIONS))}"
        return Problem("", shown, allowed, f"Drop {shown!r}: the rendezvous is c10d, which the first node holds.")
    if isinstance(text, Problem):
        return text
    if not _OPTION_VALUE.fullmatch(text):
        return Problem(name, text, "text without spaces, ',' and '='", f"Correct {name}.")
    return None


#: Name of an option -> value as text. The user may also write a number.
RendezvousOptions = Annotated[dict[str, str], BeforeValidator(_rendezvous_options), Field(max_length=_MOST_OPTIONS)]
