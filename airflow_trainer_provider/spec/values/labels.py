"""Labels, annotations and names of resources, in the form that Kubernetes accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong, wrong
from airflow_trainer_provider.spec.values.names import is_subdomain
from airflow_trainer_provider.spec.values.words import Text, as_text, rendered_hint

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_SHOWN = 63
_KEY = (
    "1 to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit; before it a DNS domain "
    "and '/', where it has one"
)
_VALUE = "at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


def is_key(text: str) -> bool:
    """Whether a text is a label's or an annotation's key, or the name of a resource.

    :param text: any text.
    """
    prefix, slash, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (is_subdomain(prefix) if slash else True)


def _key(value: str) -> str:
    if not is_key(value):
        raise wrong(_KEY, "Correct it.")
    return value


def _is_value(text: str) -> bool:
    return not text or _NAME.fullmatch(text) is not None


def _value(value: Any) -> Any:
    text = as_text(value)
    if isinstance(text, Problem):
        raise all_wrong([text])
    if not _is_value(text):
        raise wrong(_VALUE, "Shorten it, or replace the other characters.")
    return text


def _pairs(is_right: Callable[[str], bool]) -> BeforeValidator:
    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            hint = rendered_hint(value) if isinstance(value, str) else None
            raise wrong("a mapping of names to text", hint or "Write names and values.", value=type(value).__name__)
        problems: list[Problem] = []
        texts: dict[str, str] = {}
        for name, each in value.items():
            # A key may be any text. A wrong key is reported as the mapping's value, not as part of the path.
            text = as_text(each, name)
            if not is_key(name):
                problems.append(Problem("", name[:_LONGEST_SHOWN], f"keys of {_KEY}", "Rename it."))
            elif isinstance(text, Problem):
                problems.append(text)
            elif not is_right(text):
                problems.append(Problem(name, text, _VALUE, "Shorten it, or replace the other characters."))
            else:
                texts[name] = text
        if problems:
            raise all_wrong(problems)
        return texts

    return BeforeValidator(check)


def _any_text(text: str) -> bool:
    return True


#: The key of a label.
LabelKey = Annotated[Text, AfterValidator(_key)]
#: A label's value: text or a number.
LabelValue = Annotated[str, BeforeValidator(_value)]
#: Labels: keys and values; a value may also be a number.
Labels = Annotated[dict[str, str], _pairs(_is_value)]
#: Annotations: keys and any text.
Annotations = Annotated[dict[str, str], _pairs(_any_text)]
