"""Explains why the API server refuses an object: what a user has to know, and whether a retry can help."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_trainer_provider.cluster.answers import (
    BAD_CERTIFICATE,
    is_port_taken,
    is_quota_race,
    is_too_large,
    is_transient,
)
from airflow_trainer_provider.errors import ApiError, SubmitError
from airflow_trainer_provider.kinds.base import Resource
from airflow_trainer_provider.text.printable import shorten

#: How many characters of a proxy's answer are shown.
_LONGEST_ANSWER = 200
_INSTALL = {
    "trainer.kubeflow.org": "Install Kubeflow Trainer (https://www.kubeflow.org/docs/components/trainer/)",
    "jobset.x-k8s.io": "Install JobSet (https://jobset.sigs.k8s.io/docs/installation/)",
    "kubeflow.org/v1": "Install the Kubeflow Training Operator (https://www.kubeflow.org/docs/components/trainer/legacy-v1/)",
    "kubeflow.org/v2beta1": "Install the MPI Operator (https://github.com/kubeflow/mpi-operator)",
    "scheduling.x-k8s.io": "Install scheduler-plugins (https://scheduler-plugins.sigs.k8s.io/docs/user-guide/installation/)",
    "scheduling.volcano.sh": "Install Volcano (https://volcano.sh/en/docs/installation/)",
}


@dataclass(frozen=True)
class Refusal:
    """Why the API server did not do what it was asked to.

    :param reason: one CamelCase word.
    :param text: the object, the reason, and the way out.
    :param retryable: whether the same request may be accepted at another time.
    """

    reason: str
    text: str
    retryable: bool


def explain(error: ApiError, resource: Resource, namespace: str) -> Refusal:
    """Why an object was refused, and what to do.

    :param error: of a request for the object, or for all of its kind.
    :param resource: of the object.
    :param namespace: of the object.
    """
    for recognize in _RECOGNIZERS:
        found = recognize(error, resource, namespace)
        if found is not None:
            return found
    return Refusal(
        error.reason or "Unknown",
        f"The API server did not take {resource.kind} in namespace {namespace!r}: {error}",
        is_transient(error),
    )


def refusal(error: ApiError, resource: Resource, namespace: str) -> SubmitError:
    """:func:`explain`, as an error that ends a submit."""
    found = explain(error, resource, namespace)
    return SubmitError(found.text, retryable=found.retryable)


def _no_answer(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if error.status is not None:
        return None
    if error.reason == BAD_CERTIFICATE:
        return Refusal(
            error.reason,
            f"{error}. Give the cluster's own CA in the kubeconfig (certificate-authority-data), or its name in the "
            "certificate (tls-server-name).",
            True,
        )
    return Refusal(error.reason or "NoAnswer", f"The Kubernetes API did not answer: {error}", True)


def _webhook(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    # Denials come with the status that the webhook chose: 400, 403 and 422 have been seen. None of them is about our
    # permissions.
    denied = re.search(r'admission webhook "([^"]+)" denied the request:? ?(.*)', error.answer, re.DOTALL)
    if denied:
        return Refusal(
            "DeniedByWebhook",
            f"The cluster's admission webhook {denied[1]} refused this {resource.kind} in namespace {namespace!r}: "
            f"{denied[2] or 'it gave no reason'}. Correct the field that it names.",
            False,
        )
    failed = re.search(r'failed calling webhook "([^"]+)"', error.answer)
    if failed:
        return Refusal(
            "WebhookUnreachable",
            f"The cluster's admission webhook {failed[1]}, which has to agree to each {resource.kind}, does not "
            f"answer: {error.answer}. See whether its controller runs.",
            True,
        )
    return None


def _quota(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if "exceeded quota" not in error.answer and not is_quota_race(error):
        return None
    return Refusal(
        "QuotaExceeded",
        f"Namespace {namespace!r} has no quota left for this {resource.kind}: {error.answer}. Wait until others have "
        "ended (retries do), ask for less, or have the ResourceQuota raised.",
        True,
    )


def _policy(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    denied = re.search(
        r"ValidatingAdmissionPolicy '([^']+)' with binding '([^']+)' denied request: ?(.*)", error.answer, re.DOTALL
    )
    if denied is None:
        return None
    policy, binding, why = denied.groups()
    return Refusal(
        "DeniedByPolicy",
        f"The cluster's ValidatingAdmissionPolicy {policy} (binding {binding}) refused this {resource.kind} in "
        f"namespace {namespace!r}: {why or 'it gave no reason'}. Correct what it names, or ask who keeps the policy.",
        False,
    )


def _size(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if not is_too_large(error):
        return None
    # The API server answers with a Status, which has a reason; a proxy does not.
    if error.status == 413 and not error.reason:
        limit = "what a proxy before the API server passes on"
        answer = shorten(" ".join(error.answer.split()), _LONGEST_ANSWER)
        others = f" Or have the proxy's limit raised, such as client_max_body_size of nginx. It answers: {answer!r}."
    else:
        limit, others = "what the cluster stores, 1.5 MiB with all that it adds", ""
    size = "" if error.sent_bytes is None else f" of {error.sent_bytes} bytes as JSON"
    return Refusal(
        "TooLarge",
        f"This {resource.kind}{size} is larger than {limit}. Give it less data: put that into the image, a volume, or "
        f"a ConfigMap or Secret of your own, and refer to it.{others}",
        False,
    )


def _namespace(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if error.is_not_found and re.search(r'namespaces "[^"]*" not found', error.answer):
        return Refusal(
            "NamespaceMissing",
            f"There is no namespace {namespace!r} in the cluster. Create it, or name another in the operator, in the "
            "connection, or in [trainer] namespace.",
            False,
        )
    if "because it is being terminated" in error.answer:
        return Refusal(
            "NamespaceTerminating",
            f"Namespace {namespace!r} is being deleted, so nothing can be created in it. Name another, or create it "
            "again once it is gone.",
            False,
        )
    return None


def _missing(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if not error.is_not_found:
        return None
    # For a missing object the API server answers with a Status; for a missing resource it does not.
    if error.reason:
        return Refusal(
            "NotFound", f"There is no such {resource.kind} in namespace {namespace!r}: {error.answer}.", False
        )
    group = resource.api_version.rpartition("/")[0]
    crd = resource.crd or f"{resource.plural}.{group}"
    install = _INSTALL.get(resource.api_version) or _INSTALL.get(group) or "Install what brings it"
    return Refusal(
        "CrdMissing",
        f"The cluster does not know {resource.kind} of {resource.api_version}: the CustomResourceDefinition {crd} is "
        f"missing, or lacks this version. {install}, or choose another backend.",
        False,
    )


def _port(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if not is_port_taken(error):
        return None
    return Refusal(
        "NodePortTaken",
        f"Another Service of the cluster has the port of the nodes that a tool asks for: {error.answer}. Set another "
        "node_port, or drop it to get a free one; or try again once the other Service is gone (retries do).",
        True,
    )


def _input(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if "strict decoding error" in error.answer:
        fields = ", ".join(re.findall(r'(?:unknown|duplicate) field "([^"]+)"', error.answer)) or "see below"
        return Refusal(
            "UnknownField",
            f"The cluster's {resource.kind} ({resource.api_version}) has no such field: {fields}. The API server says: "
            f"{error.answer}. Correct the field's name, or upgrade what serves this kind.",
            False,
        )
    if error.status in (400, 413, 415, 422):
        causes = "; ".join(f"{field}: {message}" for field, message in error.causes) or error.answer
        return Refusal(
            "Invalid", f"The API server found this {resource.kind} invalid: {causes}. Correct what it names.", False
        )
    return None


def _access(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if error.status == 401:
        return Refusal(
            "Unauthorized",
            f"The API server does not know who we are: {error} The connection's token or certificate is wrong or has "
            "expired. Renew it in the connection; see docs/how-to/connection.md.",
            # Credentials may be renewed at any time, also while an earlier try's job trains.
            True,
        )
    if error.status != 403:
        return None
    denied = re.search(r'User "([^"]*)" cannot (\S+) resource "([^"]*)"', error.answer)
    if denied is None:
        return Refusal("Forbidden", f"The API server forbids this {resource.kind}: {error.answer}.", False)
    user, verb, plural = denied.groups()
    return Refusal(
        "NoPermission",
        f"{user} may not {verb} {plural} ({resource.api_version}) in namespace {namespace!r}. Grant it with a Role and "
        "a RoleBinding; docs/how-to/kubernetes.md says how.",
        False,
    )


def _conflict(error: ApiError, resource: Resource, namespace: str) -> Refusal | None:
    if error.status == 409 and error.reason == "AlreadyExists":
        return Refusal(
            "AlreadyExists",
            f"Namespace {namespace!r} already has a {resource.kind} of this name that is not this task's: "
            f"{error.answer}. Delete it, or give the job another name.",
            False,
        )
    if error.status == 409:
        return Refusal("Conflict", f"Something else changed the {resource.kind} meanwhile: {error.answer}", True)
    if error.status == 410:
        return Refusal("Expired", f"The API server no longer has what was asked for: {error.answer}", True)
    return None


_RECOGNIZERS = (
    _no_answer,
    _webhook,
    _policy,
    _size,
    _quota,
    _namespace,
    _missing,
    _port,
    _input,
    _access,
    _conflict,
)
