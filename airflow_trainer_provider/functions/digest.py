"""A digest that is equal for functions that do the same, regardless of the layout of their files."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest_of(files: Mapping[str, str], call: Mapping[str, Any]) -> str:
    """Digest the code and the arguments of a function. Line numbers, blank lines and comments do not count.

    :param files: path -> Python source.
    :param call: JSON values.
    """
    content = {"files": {path: _shape_of(source) for path, source in files.items()}, "call": call}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _shape_of(source: str) -> Any:
    try:
        return _shape(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A module may need the Python version of the image, which the worker's cannot parse, or be nested too deeply.
        return source


def _shape(value: Any) -> Any:
    """A syntax tree as JSON, without empty fields, unlike ``ast.dump()``: they differ between versions of Python."""
    if isinstance(value, ast.AST):
        fields = ((name, each) for name, each in ast.iter_fields(value) if each not in (None, []))
        return [type(value).__name__, {name: _shape(each) for name, each in fields}]
    return [_shape(each) for each in value] if isinstance(value, list) else repr(value)
