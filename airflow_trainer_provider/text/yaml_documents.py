"""Writes YAML that the tools of Kubernetes read as intended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

#: Text that kubectl's parser reads as a boolean or a number, and Python's does not.
_OTHERWISE = re.compile(r"[yYnN]|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+|[-+]?0o[0-7]+")
_WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Writes such text in quotes."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if _OTHERWISE.fullmatch(text) else None)


_Dumper.add_representer(str, _text)


def yaml_documents(documents: Iterable[Any]) -> str:
    """Some objects as YAML, one document each.

    :param documents: made of plain values.
    """
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=_WIDTH)
    return text
