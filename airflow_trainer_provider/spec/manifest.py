"""A job that the user's own Kubernetes manifest describes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field

from airflow_trainer_provider.spec.base import Number, SpecModel, Whole, wrong
from airflow_trainer_provider.spec.job import JobName, Text

_ALLOWED = "one Kubernetes object: a mapping, or YAML or JSON text of one document"


class _Loader(yaml.SafeLoader):
    """Reads YAML as Kubernetes does: a date is a text, and no key comes twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _one_object(value: Any) -> Any:
    if isinstance(value, str):
        try:
            documents = [each for each in yaml.load_all(value, _Loader) if each is not None]
        except yaml.YAMLError as error:
            # The text may hold secrets: only where it is wrong is told.
            mark = getattr(error, "problem_mark", None)
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            why = getattr(error, "problem", None) or type(error).__name__
            raise wrong(_ALLOWED, f"Correct the YAML: {where}{why}.", value="text") from None
        if len(documents) != 1:
            fix = "Leave one job in it. What else it needs has to be there before."
            raise wrong(_ALLOWED, fix, value=f"{len(documents)} documents")
        value = documents[0]
    if not isinstance(value, Mapping):
        raise wrong(_ALLOWED, "Give one job's manifest.", value=type(value).__name__)
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str):
            raise wrong("text", f"Set manifest.{name}.", name, value.get(name) or "nothing")
    for name in ("metadata", "spec"):
        if not isinstance(value.get(name) or {}, Mapping):
            raise wrong("a mapping", f"Correct manifest.{name}.", name, type(value[name]).__name__)
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        raise wrong("JSON values", "Write dates and other objects as text.", value=type(value).__name__) from None
    if not value.get("spec"):
        raise wrong("a mapping", "Set manifest.spec.", "spec", "nothing")
    return value


class ManifestRunPolicy(SpecModel):
    """What of :class:`~airflow_trainer_provider.spec.job.RunPolicy` is not the manifest's own; the same meaning."""

    infrastructure_retries: Annotated[Whole, Field(ge=0, le=100)] = 0
    startup_timeout_seconds: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = None
    ttl_seconds_after_finished: Annotated[Whole, Field(ge=0)] | None = None


class ManifestSpec(SpecModel):
    """A job that the user's own manifest describes, and what becomes of it.

    :param manifest: the object, or its text.
    :param framework: which it runs; None where its kind tells, or nobody needs to know.
    :param name: readable part of the job's name; the manifest's own name where it is left out.
    :param run_policy: how long it may take to start, and how often it may start again.
    :param on_kill_action: as in :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`.
    :param on_finish_action: as there.
    """

    manifest: Annotated[Mapping[str, Any], BeforeValidator(_one_object)]
    framework: Text | None = None
    name: JobName | None = None
    run_policy: ManifestRunPolicy = ManifestRunPolicy()
    on_kill_action: Literal["delete", "suspend"] = "delete"
    on_finish_action: Literal["delete", "delete_succeeded", "keep"] = "delete"

    @property
    def namespace(self) -> str | None:
        """The manifest's own; None where it names none."""
        return (self.manifest.get("metadata") or {}).get("namespace")
