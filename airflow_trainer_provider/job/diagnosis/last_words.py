"""Summarizes the last output of a container in one line."""

from __future__ import annotations

import json
import re

from airflow_trainer_provider.job.diagnosis.causes import BY_ITSELF
from airflow_trainer_provider.job.status import ReplicaStatus
from airflow_trainer_provider.text.printable import EXCEPTION

#: Rulers, headings and table rows in the output of launchers.
_LAYOUT = re.compile(r"\W*|.*:|\w+ +: .*|(?:\w+: )?<.*>")
#: The maximum length, in characters.
_LONGEST = 300


def last_words(message: str | None) -> str | None:
    """The line of a message that best explains the end: the last error, else the last line that is not only layout.

    :param message: of a container or a pod. It can be the end of a log.
    """
    lines = [line.strip() for line in (message or "").splitlines() if re.search(r"\w", line)]
    errors = [found["exception"] for line in lines if (found := EXCEPTION.fullmatch(line))]
    texts = [line for line in lines if not _LAYOUT.fullmatch(line)]
    return (errors or texts or lines)[-1][:_LONGEST] if lines else None


def is_result(end: ReplicaStatus) -> bool:
    """Whether the message of a failed replica is the result that it had written before, and not an error.

    :param end: of the replica.
    """
    if end.reason not in BY_ITSELF:
        return False
    try:
        json.loads(end.message or "")
    except (ValueError, RecursionError):
        return False
    return True
