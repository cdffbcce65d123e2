"""Decides from a value whether it can be, or looks like, a secret."""

from __future__ import annotations

import re

from airflow_trainer_provider.text.secret_names import Grade, grade

#: Replaces a secret.
MASK = "***"
_MASKED = re.compile(r"\*{3,}|<?redacted>?", re.IGNORECASE)
#: Values that are no secret under any name: references to one, switches, types, and special tokens such as "<pad>".
_NO_SECRET = re.compile(
    r"\$\([^()]*\)|\$\{\w+\}|\$[A-Z_][A-Z0-9_]*|\{\{.*\}\}|<[^<>]*>|\[[A-Z]+\]"
    r"|(?i:true|false|none|null|nil|yes|no|on|off|int|float|str|list|dict|tuple|nonetype)",
    re.DOTALL,
)
#: Paths. Only below the usual folders, as a random value can begin with a slash.
_PATH = re.compile(
    r"(~|\.{1,2}|/(app|config|data|dev|etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|var|vault|work|workspace)\b)"
    r"(/[\w.@+-]+)+/?"
)
#: Words and a number: a column, a model, a version.
_WORDS = re.compile(r"[A-Za-z][a-z]*(?:[ _./-][A-Z]?[a-z]+)*[ _./-]?\d{0,4}")
_HEX = re.compile(r"[0-9a-f]{32,}", re.IGNORECASE)
_RUN = re.compile(r"(?P<lower>[A-Z]?[a-z]+)|(?P<upper>[A-Z]+)|(?P<digits>\d+)")
_KEY = re.compile(r"[\w.+/=~:-]{8,}")
#: The mean length of the runs of lower case, upper case and digits below which a value counts as random.
_SHORT_RUNS = 3.5
#: The least length of a secret that is masked in other text; and of one that consists of letters or of digits only.
_DISTINCT = 6
_DISTINCT_PLAIN = 12


def is_secret(name: str, value: str) -> bool:
    """Whether a value has to be masked because of its name.

    :param name: the name.
    :param value: the value.
    """
    found = grade(name)
    if found is Grade.NONE or not can_be_secret(value):
        return False
    return found is Grade.SURE or looks_random(value)


def can_be_secret(value: str) -> bool:
    """Whether the value of a secret's name can be the secret itself, and not a reference, a path or a switch.

    :param value: the value.
    """
    text = value.strip()
    return bool(text) and not any(pattern.fullmatch(text) for pattern in (_NO_SECRET, _PATH, _MASKED))


def looks_random(value: str) -> bool:
    """Whether a value looks generated, and not like words, a name or a number.

    :param value: the value.
    """
    if not _KEY.fullmatch(value) or _WORDS.fullmatch(value):
        return False
    if _HEX.fullmatch(value):
        return True
    runs = list(_RUN.finditer(value))
    return len({run.lastgroup for run in runs}) > 1 and len(value) / len(runs) < _SHORT_RUNS


def is_distinct(value: str) -> bool:
    """Whether a secret can be masked in any text. Masking a short or common word would garble the text, and reveal what
    the secret is.

    :param value: the secret.
    """
    shortest = _DISTINCT_PLAIN if value.isalpha() or value.isdigit() else _DISTINCT
    return len(value) >= shortest and can_be_secret(value)
