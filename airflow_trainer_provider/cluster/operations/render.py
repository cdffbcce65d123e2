"""Renders a job's objects as text for users."""

from __future__ import annotations

from airflow_trainer_provider.kinds.base import Manifest, Rendered
from airflow_trainer_provider.kinds.objects.function import with_sizes
from airflow_trainer_provider.text.redaction import redacted
from airflow_trainer_provider.text.yaml_documents import yaml_documents


def render(rendered: Rendered, namespace: str) -> str:
    """The objects as YAML documents, in the order in which they are created, without secrets and without the code of a
    function.

    :param rendered: the objects.
    :param namespace: where they will be.
    """
    documents = [
        _shown(manifest, namespace) for manifest in (*rendered.kept, *rendered.before, rendered.main, *rendered.after)
    ]
    return yaml_documents(documents)


def _shown(manifest: Manifest, namespace: str) -> Manifest:
    shown: Manifest = redacted({**with_sizes(manifest), "metadata": {**manifest["metadata"], "namespace": namespace}})
    return shown
