"""A short text that is the same for functions that do the same, however their files are laid out."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest_of(files: Mapping[str, str], call: Mapping[str, Any]) -> str:
    """Digest what a function does and is called with. Line numbers, blank lines and comments do not count.

    :param files: path -> Python source.
    :param call: JSON values.
    """
    content = {"files": {path: _shape_of(source) for path, source in files.items()}, "call": call}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _shape_of(source: str) -> Any:
    try:
        return _shape(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Modules may be for the Python of the image, which the worker's cannot read; or nested too deeply.
        return source


def _shape(value: Any) -> Any:
    """Syntax as JSON. Unlike ``ast.dump()``, it leaves out what is empty: each Python has other fields of that kind."""
    if isinstance(value, ast.AST):
        fields = ((name, each) for name, each in ast.iter_fields(value) if each not in (None, []))
        return [type(value).__name__, {name: _shape(each) for name, each in fields}]
    return [_shape(each) for each in value] if isinstance(value, list) else repr(value)
