"""Which pod the API server has refused."""

from __future__ import annotations

import re

#: How the API server begins to refuse a pod by itself, and the pod's name. A webhook's refusal has no name.
_REFUSED_POD = re.compile(r'\b[Pp]ods? "([^"]+)" is (?:forbidden|invalid)')
#: What Kubernetes adds to ``generateName``; nothing yet, where it has not come to that.
_GENERATED = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5})?$")


def refused_pod(message: str | None) -> str | None:
    """The pod that the API server has refused.

    :param message: of a controller, on what it could not create.
    :return: its name, without what Kubernetes generates of it; None where no pod is named, as by webhooks.
    """
    refused = _REFUSED_POD.search(message or "")
    return stem_of(refused.group(1)) if refused else None


def stem_of(name: str) -> str:
    """The name of a pod without what Kubernetes generates of it, which is new for each try.

    :param name: of the pod, whether a part of it is generated or not.
    """
    return _GENERATED.sub("", name)
