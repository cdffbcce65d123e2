from __future__ import annotations

import functools
import operator
import os
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

# Importing Airflow makes a home; not in the builder's own.
os.environ["AIRFLOW_HOME"] = str(Path(__file__).parent / "_build" / "airflow")

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import coverage_tables
from pydantic import BaseModel

from airflow_trainer_provider import __version__
from airflow_trainer_provider.get_provider_info import get_provider_info
from airflow_trainer_provider.spec import compute, job

project = "airflow-trainer-provider"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "layers"]
exclude_patterns = ["_build"]
# A block that names no language is output, or a tree of files.
highlight_language = "text"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_title = f"{project} {release}"
# docs/contributing may be empty.
suppress_warnings = ["toc.empty_glob"]
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "substitution"]


def _options() -> str:
    """The options of ``[trainer]`` as a table, from what Airflow itself reads."""
    rows = ["| Option | Type | Default | Meaning |", "|---|---|---|---|"]
    for name, option in get_provider_info()["config"]["trainer"]["options"].items():
        default = f"`{option['default']}`" if option["default"] else "empty"
        meaning = option["description"].replace("``", "`")
        rows.append(f"| `{name}` | {option['type']} | {default} | {meaning} |")
    return "\n".join(rows)


_documents = coverage_tables.read(Path(__file__).parent / "reference" / "coverage.yaml")
myst_substitutions = {
    "options": _options(),
    "coverage": {name: coverage_tables.table(document["rows"]) for name, document in _documents.items()},
}


def _without_rules(annotation: Any) -> Any:
    """The type without pydantic's rules on it, which are code; the docstrings say them in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _without_rules(parts[0])
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_without_rules, parts))
    if origin in (tuple, dict):
        return origin[tuple(part if part is ... else _without_rules(part) for part in parts)]
    return annotation


for model in [*vars(job).values(), *vars(compute).values()]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        hints = get_type_hints(model, include_extras=True)
        model.__annotations__ = {name: _without_rules(hint) for name, hint in hints.items()}
