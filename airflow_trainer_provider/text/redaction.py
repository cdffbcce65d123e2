"""Masks secrets in everything that is shown: rendered jobs, stored fields, errors, logs.

A secret is the value of a secret's name (``DB_PASSWORD``, ``--token X``, ``{"apiKey": ...}``), or a value with a
well-known form (a private key, ``ghp_...``, a password in a URL). Only the value is masked; the rest stays readable.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

from airflow_trainer_provider.text.secret_names import REFERENCES, Grade, grade
from airflow_trainer_provider.text.secret_text import mask_message, mask_named, mask_shapes, mask_value
from airflow_trainer_provider.text.secret_values import MASK, can_be_secret, is_secret, looks_random

#: The fields that hold the name, in an element of a list of variables.
_NAMES = ("name", "Name", "key", "Key")
#: Fields of an operator whose value is a name in lower case. Anything else there that looks random was pasted.
_LOWER_CASE_FIELDS = ("namespace", "backend")
_LOWER_CASE = re.compile(r"[a-z0-9-]{1,63}")
_SHORTEST_TOKEN = 16
#: NAME=VALUE as an argument of its own: everything after the first "=" is the value.
_ARGUMENT = re.compile(r"(?P<before>-{0,2}[+~]{0,2}(?P<name>[A-Za-z_][\w./-]*)=)(?P<value>.+)", re.DOTALL)
#: The YAML of a Kubernetes object; and a reference in YAML to another part of it.
_KUBERNETES = re.compile(r"^apiVersion:", re.MULTILINE)
_ALIAS = re.compile(r"[\s\[{,]\*\w")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
#: Options whose value is a script; and user:password.
_SCRIPTS = ("c", "lc")
_USERS = ("u", "user")
#: The deepest level of nesting that is searched. A value that contains itself has no end.
_DEEPEST = 60
#: The longest YAML that is parsed, in characters: the parser is slow, and runs in the event loop of a triggerer.
_LONGEST_YAML = 32 * 1024


def redacted(value: Any, name: str = "") -> Any:
    """Mask the secrets in the input of a job.

    :param value: any value: a field of the operator, a manifest, a text. It is not changed.
    :param name: the name of the value.
    :return: a copy.
    """
    return _Redaction().field(value, name)


def redacted_text(text: str) -> str:
    """Mask the secrets that a message quotes.

    :param text: the message of an error, or of a component of the cluster.
    """
    found = _Redaction()
    return mask_message(mask_shapes(text, found.hide), found.hide)


def is_token(text: str) -> bool:
    """Whether a text is a token with a well-known form, and not a name that begins like one.

    :param text: any text.
    """
    return looks_random(text) and redacted_text(text) == MASK


def redacted_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Mask the secrets with a well-known form in the output of a program. Values after a name stay: that may be code.

    :param lines: without line breaks.
    """
    given = tuple(lines)
    return tuple(mask_shapes("\n".join(given), _Redaction().hide).split("\n")) if given else ()


def secrets_in(value: Any, name: str = "") -> frozenset[str]:
    """Find the secrets that :func:`redacted` masks.

    :param value: any value.
    :param name: the name of the value.
    """
    found = _Redaction()
    found.field(value, name)
    return frozenset(found.secrets)


class _Redaction:
    """One walk through a value."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._masked = 0
        self._depth = 0

    def hide(self, secret: str) -> str:
        self.secrets.add(secret)
        self._masked += 1
        return MASK

    def field(self, value: Any, name: str) -> Any:
        """Mask a value that can be a field of an operator."""
        if name in _LOWER_CASE_FIELDS and isinstance(value, str):
            text = value.strip()
            if len(text) >= _SHORTEST_TOKEN and not _LOWER_CASE.fullmatch(text) and looks_random(text):
                return self.hide(text)
        return self.value(value, name)

    def value(self, value: Any, name: str = "", *, in_secret: bool = False) -> Any:
        """Mask a value.

        :param in_secret: whether the value is a part of a value with a secret's name.
        """
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, str):
            return self._text(value, name, in_secret)
        if isinstance(value, (int, float)):
            return self.hide(str(value)) if grade(name) is Grade.SURE else value
        if self._depth > _DEEPEST:
            return MASK
        self._depth += 1
        try:
            return self._parts(value, name, in_secret or grade(name) is Grade.SURE)
        finally:
            self._depth -= 1

    def _parts(self, value: Any, name: str, in_secret: bool) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, in_secret)
        if isinstance(value, (list, tuple)):
            items = self._items(value, name, in_secret)
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, (set, frozenset)):
            return self._items(sorted(value, key=str), name, in_secret)
        # Not a JSON value. Its text replaces it if that contains a secret.
        masked = self._text(str(value), name, in_secret)
        return value if masked == str(value) else masked

    def _mapping(self, value: Mapping[Any, Any], in_secret: bool) -> dict[Any, Any]:
        variable = next((value[each] for each in _NAMES if isinstance(value.get(each), str)), None)
        is_secret_object = value.get("kind") == "Secret"
        masked = {}
        for key, each in value.items():
            name = str(key)
            if name in ("value", "Value") and variable and not isinstance(each, (Mapping, list)):
                masked[key] = self.value(each, variable, in_secret=in_secret)
            elif is_secret_object and name in ("data", "stringData") and isinstance(each, Mapping):
                masked[key] = {inner: self.hide(str(text)) for inner, text in each.items()}
            else:
                masked[key] = self.value(each, name, in_secret=in_secret and name not in REFERENCES)
        return masked

    def _items(self, values: Iterable[Any], name: str, in_secret: bool) -> list[Any]:
        """Mask the items of a list, which can be arguments: an option, followed by its value."""
        masked, option = [], ""
        for each in values:
            if isinstance(each, str) and not in_secret:
                masked.append(self._argument(each, option))
                found = _OPTION.fullmatch(each)
                option = found["name"] if found else ""
            else:
                # A secret can consist of digits, and YAML makes a number of it.
                masked.append(self.value(each, name if in_secret else option, in_secret=in_secret))
                option = ""
        return masked

    def _argument(self, text: str, option: str) -> str:
        """Mask an argument.

        :param option: the name of the option before it; empty if that is none.
        """
        if not text.startswith("--") and is_secret(option, text):
            return mask_value(text, self.hide)
        if option in _USERS and ":" in text:
            return self._text(f"-u {text}").removeprefix("-u ")
        found = _ARGUMENT.fullmatch(text)
        if found and option not in _SCRIPTS and is_secret(found["name"], found["value"]):
            return found["before"] + mask_value(found["value"], self.hide)
        return self._text(text)

    def _text(self, text: str, name: str = "", in_secret: bool = False) -> str:
        if is_secret(name, text) or (in_secret and name not in REFERENCES and can_be_secret(text)):
            return mask_value(text, self.hide)
        document = self._document(text)
        return mask_named(mask_shapes(text, self.hide), self.hide) if document is None else document

    def _document(self, text: str) -> str | None:
        """Mask JSON, YAML in braces, or the YAML of a Kubernetes object, by its structure.

        :return: None if the text is none of them.
        """
        if text.lstrip()[:1] in ("{", "["):
            document = self._parsed(text, json.loads, json.dumps)
            is_flow = document is None and ": " in text and text.rstrip()[-1] in "}]" and _is_parsable(text)
            return self._parsed(text, yaml.safe_load, _flow) if is_flow else document
        if "\n" in text and _KUBERNETES.search(text) and _is_parsable(text):
            return self._parsed(text, yaml.safe_load, _yaml)
        return None

    def _parsed(self, text: str, load: Callable[[str], Any], dump: Callable[[Any], str]) -> str | None:
        try:
            value = load(text)
        except (ValueError, RecursionError, yaml.YAMLError):
            return None
        if not isinstance(value, (Mapping, list)) or self._depth > _DEEPEST:
            return None
        before = self._masked
        masked = self.value(value)
        # The original text, unless a secret was masked.
        return text if self._masked == before else dump(masked)


def _is_parsable(text: str) -> bool:
    """Whether to parse YAML. A few lines with aliases can expand to gigabytes."""
    return len(text) <= _LONGEST_YAML and not _ALIAS.search(text)


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, width=math.inf, default_flow_style=True)
    return text.rstrip("\n")


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, width=math.inf)
    return text
