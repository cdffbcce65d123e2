"""The service account, the user, the labels, the image pulls and the sources of variables of a job's pods."""

from __future__ import annotations

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec import PodSettings, Variable
from airflow_trainer_provider.spec.pod import ImagePull, Security, VariablesFrom


def lay_settings(template: Manifest, container: Manifest, settings: PodSettings) -> None:
    """Apply pod settings to the pods' template. A field that is left out keeps the template's value.

    :param template: the pods' template, with its metadata and spec.
    :param container: the training's container in that template.
    :param settings: of the replica.
    """
    metadata, spec = template["metadata"], template["spec"]
    for name, given in (("labels", settings.labels), ("annotations", settings.annotations)):
        if given:
            metadata[name] = {**metadata.get(name, {}), **given}
    if settings.service_account:
        spec.pop("serviceAccount", None)
        spec["serviceAccountName"] = settings.service_account
    if settings.security:
        _lay_security(spec, container, settings.security)
    if settings.image_pull:
        _lay_image_pull(spec, container, settings.image_pull)
    if settings.env_from:
        # If two sources have the same key, the last source takes precedence.
        container["envFrom"] = [*container.get("envFrom", ()), *map(_source, settings.env_from)]


def value_of(variable: Variable) -> str | Manifest:
    """The value of a variable, or the EnvVarSource that it comes from.

    :param variable: of the spec.
    """
    if isinstance(variable, str):
        return variable
    if variable.field:
        return {"fieldRef": {"fieldPath": variable.field}}
    if variable.secret:
        return {"secretKeyRef": variable.secret.model_dump()}
    return {"configMapKeyRef": variable.config_map.model_dump() if variable.config_map else {}}


def _lay_security(spec: Manifest, container: Manifest, security: Security) -> None:
    given = {
        "runAsUser": security.run_as_user,
        "runAsGroup": security.run_as_group,
        "supplementalGroups": list(security.supplemental_groups) or None,
        "fsGroup": security.fs_group,
    }
    context = {name: value for name, value in given.items() if value is not None}
    spec["securityContext"] = {**spec.get("securityContext", {}), **context}
    own = container.get("securityContext")
    if own:
        # The container's own security context would take precedence over the pod's.
        container["securityContext"] = {**own, **{name: context[name] for name in own.keys() & context.keys()}}


def _lay_image_pull(spec: Manifest, container: Manifest, pull: ImagePull) -> None:
    if pull.policy:
        container["imagePullPolicy"] = pull.policy
    if pull.secrets:
        entries = [*spec.get("imagePullSecrets", ()), *({"name": name} for name in pull.secrets)]
        spec["imagePullSecrets"] = list({entry["name"]: entry for entry in entries}.values())


def _source(given: VariablesFrom) -> Manifest:
    prefix = {"prefix": given.prefix} if given.prefix else {}
    if given.secret:
        return {**prefix, "secretRef": {"name": given.secret}}
    return {**prefix, "configMapRef": {"name": given.config_map}}
