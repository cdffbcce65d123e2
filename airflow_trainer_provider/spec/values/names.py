"""Names whose form Kubernetes or Airflow restricts."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from airflow_trainer_provider.spec.values.base import wrong
from airflow_trainer_provider.spec.values.words import Text
from airflow_trainer_provider.text.redaction import is_token

_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN = 253
_CONNECTION_ID = re.compile(r"[^\s=\"'{}]{1,250}")
_SELECTOR = re.compile(r"[\w.\-/=!<>,()\s]+", re.ASCII)
_NO_WORD = re.compile(r"[^\w.\-]+")


def is_label(text: str) -> bool:
    """Whether a text is a DNS label, such as the name of a namespace.

    :param text: any text.
    """
    return _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS subdomain, such as most names in Kubernetes.

    :param text: any text.
    """
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def _job_name(value: str) -> str:
    if not _JOB_NAME.fullmatch(value):
        allowed = "1 to 32 lowercase letters, digits and '-', beginning with a letter, not ending with '-'"
        raise wrong(allowed, "Rename it.")
    return value


def _namespace(value: str) -> str:
    if not is_label(value):
        allowed = "1 to 63 lowercase letters, digits and '-', not beginning or ending with '-'"
        raise wrong(allowed, "Write the name of a namespace alone.")
    return value


def _object_name(value: str) -> str:
    if not is_subdomain(value):
        allowed = (
            "1 to 253 lowercase letters, digits, '-' and '.', each part beginning and ending with a letter or digit"
        )
        raise wrong(allowed, "Write the object's name alone.")
    return value


def _queue_name(value: str) -> str:
    # Kueue reads the name from a label, and a label's value has at most 63 characters.
    if not (is_subdomain(value) and len(value) <= 63):
        allowed = "1 to 63 lowercase letters, digits, '-' and '.', beginning and ending with a letter or digit"
        raise wrong(allowed, "Write the name of a LocalQueue alone.")
    return value


def _connection_id(value: str) -> str:
    # Airflow's own pattern differs between versions: refuse only what no version accepts.
    if not _CONNECTION_ID.fullmatch(value) or is_token(value):
        allowed = "the ID of a connection: at most 250 characters without spaces, '=', quotation marks and braces"
        raise wrong(allowed, "Name a connection; credentials belong in it.")
    return value


def _selector(value: str) -> str:
    if not _SELECTOR.fullmatch(value) or any(is_token(word) for word in _NO_WORD.split(value)):
        raise wrong("a label selector of Kubernetes, such as app=train,team in (a, b)", "Write labels alone.")
    return value


#: The ID of an Airflow connection.
ConnectionId = Annotated[Text, AfterValidator(_connection_id)]
#: A Kubernetes label selector.
Selector = Annotated[Text, AfterValidator(_selector)]
#: The readable part of a job's name.
JobName = Annotated[Text, AfterValidator(_job_name)]
#: A namespace: a DNS label.
Namespace = Annotated[Text, AfterValidator(_namespace)]
#: The name of a Kubernetes object: a DNS subdomain.
ObjectName = Annotated[Text, AfterValidator(_object_name)]
#: The name of a LocalQueue of Kueue.
QueueName = Annotated[Text, AfterValidator(_queue_name)]
