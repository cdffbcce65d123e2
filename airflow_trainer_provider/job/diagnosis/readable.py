"""Makes text from the cluster fit for logs, XCom and terminals: printable, and without secrets."""

from __future__ import annotations

from functools import lru_cache

from airflow_trainer_provider.job.diagnosis.causes import BY_ITSELF, INIT, OUT_OF_MEMORY, SIDECAR
from airflow_trainer_provider.job.status import JobStatus, ReplicaStatus
from airflow_trainer_provider.text.mask import Mask
from airflow_trainer_provider.text.printable import printable
from airflow_trainer_provider.text.redaction import redacted_lines, redacted_text

#: Reasons for which the message is the end of the container's log.
_LOGGED = (*BY_ITSELF, OUT_OF_MEMORY, f"{INIT}Error", f"{SIDECAR}Error")


def readable(status: JobStatus, mask: Mask) -> JobStatus:
    """Clean the reasons and messages of a status.

    :param status: the status, as read from the cluster.
    :param mask: for the job's own secrets.
    """
    replicas = tuple(_replica(replica, mask) for replica in status.replicas)
    update = {name: mask.text(message(text)) for name in ("reason", "message") if (text := getattr(status, name))}
    return status.model_copy(update={**update, "replicas": replicas})


@lru_cache(maxsize=1024)
def message(text: str) -> str:
    """Clean a message of a component of the cluster: the API server, a controller, the kubelet.

    :param text: the message.
    """
    return redacted_text(printable(text))


@lru_cache(maxsize=1024)
def _lines(text: str) -> str:
    return "\n".join(redacted_lines(printable(text).split("\n")))


def _replica(replica: ReplicaStatus, mask: Mask) -> ReplicaStatus:
    cleaned = _lines if replica.reason in _LOGGED else message
    before = {"reason": replica.reason, "message": replica.message}
    after = {name: text and mask.text(cleaned(text)) for name, text in before.items()}
    return replica if after == before else replica.model_copy(update=after)
