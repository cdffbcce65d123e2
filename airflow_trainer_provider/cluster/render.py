"""A job's objects as text for people."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from airflow_trainer_provider.job.redaction import redacted
from airflow_trainer_provider.kinds.base import Manifest, Rendered


def render(rendered: Rendered, namespace: str) -> str:
    """The objects as YAML documents, in the order in which they are created, without values that look like secrets.

    :param rendered: the objects.
    :param namespace: where they will be.
    """
    documents = [_shown(manifest, namespace) for manifest in (*rendered.before, rendered.main, *rendered.after)]
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=120)
    return text


def _shown(manifest: Manifest, namespace: str) -> Manifest:
    shown: Manifest = copy.deepcopy(manifest)
    shown["metadata"]["namespace"] = namespace
    for field in ("data", "stringData") if shown["kind"] == "Secret" else ():
        if field in shown:
            shown[field] = dict.fromkeys(shown[field], "***")
    _mask(shown)
    return shown


def _mask(value: Any) -> None:
    """Mask the variables of all containers, wherever they are."""
    if isinstance(value, list):
        for each in value:
            _mask(each)
    elif isinstance(value, dict):
        for variable in value["env"] if isinstance(value.get("env"), list) else ():
            # A manifest of the user's own may hold anything; what is wrong with it the API server says.
            if isinstance(variable, dict) and all(isinstance(variable.get(each), str) for each in ("name", "value")):
                variable["value"] = redacted({variable["name"]: variable["value"]})[variable["name"]]
        for each in value.values():
            _mask(each)
