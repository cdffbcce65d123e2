"""Finds the pod that the API server has refused in the message of a controller."""

from __future__ import annotations

import re

#: How a refusal by the API server itself begins, with the pod's name. A webhook's refusal has no name.
_REFUSED_POD = re.compile(r'\b[Pp]ods? "([^"]+)" is (?:forbidden|invalid)')
#: The suffix that Kubernetes appends to ``generateName``; empty where the refusal came before that.
_GENERATED = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5})?$")


def refused_pod(message: str | None) -> str | None:
    """The pod that the API server has refused.

    :param message: of a controller, on what it could not create.
    :return: its name, without the suffix that Kubernetes generates; None where no pod is named, as in the refusals of
        webhooks.
    """
    refused = _REFUSED_POD.search(message or "")
    return stem_of(refused.group(1)) if refused else None


def stem_of(name: str) -> str:
    """The name of a pod without the suffix that Kubernetes generates, which is new for each try.

    :param name: of the pod, with or without such a suffix.
    """
    return _GENERATED.sub("", name)
