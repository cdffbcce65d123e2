"""A job that the user's own Kubernetes manifest describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from airflow_trainer_provider.spec.running.metrics import Metrics
from airflow_trainer_provider.spec.values.base import Seconds, SpecModel, Whole, wrong
from airflow_trainer_provider.spec.values.limits import MOST_INT32
from airflow_trainer_provider.spec.values.names import JobName, is_label
from airflow_trainer_provider.spec.values.plain import plain
from airflow_trainer_provider.spec.values.shape import MAPPING, TEXT, TEXTS, shaped
from airflow_trainer_provider.spec.values.words import Text
from airflow_trainer_provider.spec.values.yaml_text import read_documents

_ALLOWED = "one Kubernetes object: a mapping, or YAML or JSON text of one document"
_METADATA = {"name": TEXT, "generateName": TEXT, "namespace": TEXT, "labels": TEXTS, "annotations": TEXTS}
_SHAPE = {"apiVersion": TEXT, "kind": TEXT, "metadata": _METADATA, "spec": MAPPING}


def _only_document(text: str) -> Any:
    try:
        documents = read_documents(text)
    except ValueError as error:
        raise wrong(_ALLOWED, f"Correct the YAML: {error}.", value="text") from None
    if len(documents) != 1:
        fix = "Leave one job in it. What else it needs has to be there before."
        raise wrong(_ALLOWED, fix, value=f"{len(documents)} documents")
    # YAML aliases may be nested and expand to a huge value: plain() limits the size.
    return plain("manifest", documents[0])


def _one_object(value: Any) -> Any:
    value = _only_document(value) if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        raise wrong(_ALLOWED, "Give one job's manifest.", value=type(value).__name__)
    manifest = shaped(_SHAPE, value, lambda shape, name: None)
    for name in ("apiVersion", "kind", "spec"):
        if not manifest.get(name):
            raise wrong("a mapping" if name == "spec" else "text", f"Set manifest.{name}.", name, "nothing")
    namespace = manifest.get("metadata", {}).get("namespace")
    if namespace is not None and not is_label(namespace):
        allowed = "1 to 63 lowercase letters, digits and '-', not beginning or ending with '-'"
        raise wrong(allowed, "Write the name of a namespace alone.", "metadata.namespace", namespace)
    return manifest


class ManifestRunPolicy(SpecModel):
    """The fields of :class:`~airflow_trainer_provider.spec.job.RunPolicy` that a manifest cannot set; same meaning."""

    infrastructure_retries: Annotated[Whole, Field(ge=0, le=100)] = 0
    startup_timeout_seconds: Seconds | None = None
    ttl_seconds_after_finished: Annotated[Whole, Field(ge=0, le=MOST_INT32)] | None = None


class ManifestSpec(SpecModel):
    """A job that is described by the user's own manifest, and what happens to the job.

    :param manifest: the object, or its text.
    :param framework: the framework that the job runs; None if the manifest's kind implies it, or if it is not needed.
    :param name: readable part of the job's name; the manifest's own name if unset.
    :param run_policy: how long the job may take to start, how often it is submitted again, and how long it is kept.
    :param metrics: as in :class:`~airflow_trainer_provider.spec.job.TrainJobSpec`.
    :param on_kill_action: as in ``TrainJobSpec``.
    :param on_finish_action: as in ``TrainJobSpec``.
    """

    manifest: Annotated[Mapping[str, Any], BeforeValidator(_one_object)]
    framework: Text | None = None
    name: JobName | None = None
    run_policy: ManifestRunPolicy = ManifestRunPolicy()
    metrics: Metrics = Field(default_factory=dict)
    on_kill_action: Literal["delete", "suspend"] = "delete"
    on_finish_action: Literal["delete", "delete_succeeded", "keep"] = "delete"

    @property
    def namespace(self) -> str | None:
        """The manifest's namespace; None if it does not set one."""
        return (self.manifest.get("metadata") or {}).get("namespace")
