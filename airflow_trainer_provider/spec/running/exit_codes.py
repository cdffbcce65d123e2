"""Which exit codes of a replica restart a job, and which end it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, wrong

#: The exit codes of a failed process. The code of a process that a signal ended is 128 plus the signal's number.
_FIRST, _LAST = 1, 255
#: The exit codes for SIGKILL and SIGTERM. The kernel ends a process with too much memory in this way, and the cluster
#: ends processes of jobs that it suspends and of pods that it evicts. So these codes never end a job for good.
KILLED = (137, 143)
_ALLOWED = f"a list of exit codes from {_FIRST} to {_LAST}, and of ranges of them such as '128-255'"
_CODES = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


def _ranges(value: Any) -> tuple[str, ...]:
    """The codes as canonical texts: in ascending order, with consecutive codes joined into one range."""
    if not isinstance(value, (list, tuple)) or not value:
        fix = "List them, e.g. [1, '64-113']. At least one is needed."
        raise wrong(_ALLOWED, fix, value=type(value).__name__ if value else value)
    texts: list[str] = []
    codes = sorted(set(chain.from_iterable(_codes(each, at) for at, each in enumerate(value))))
    for code in codes:
        if texts and int(texts[-1].rpartition("-")[2]) == code - 1:
            texts[-1] = f"{texts[-1].partition('-')[0]}-{code}"
        else:
            texts.append(str(code))
    return tuple(texts)


def _codes(value: Any, at: int) -> Iterable[int]:
    match = _CODES.fullmatch(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    if match:
        first, last = int(match[1]), int(match[2] or match[1])
        if _FIRST <= first <= last <= _LAST:
            return range(first, last + 1)
    shown = value if isinstance(value, (int, str)) else type(value).__name__
    raise wrong(_ALLOWED, "Write a number, or a range of two with '-' between them.", f"[{at}]", shown)


Codes = Annotated[tuple[str, ...], BeforeValidator(_ranges)]


class ExitCodes(SpecModel):
    """Which exit codes of a replica restart the job, within ``backoff_limit``, and which end it for good.

    Exactly one of the two lists is set.

    :param restart: codes, and ranges of codes, that restart the job (``[75, "128-255"]``); any other code ends it.
    :param fail: codes, and ranges of codes, that end the job; any other code restarts it. 137 and 143, the codes for
        SIGKILL and SIGTERM, are not allowed here.
    """

    restart: Codes | None = None
    fail: Codes | None = None

    @model_validator(mode="after")
    def _one_list(self) -> ExitCodes:
        if (self.restart is None) == (self.fail is None):
            fix = "Name the codes of one kind. All others are of the other kind."
            raise wrong("either restart or fail", fix, "fail", None if self.fail is None else "a value")
        killed = [code for code in KILLED if self.fail and code in self.listed]
        if killed:
            allowed = "codes that the training ends with, not those of SIGKILL and SIGTERM (137, 143)"
            fix = "Leave them out: the cluster ends processes so when it suspends a job or takes a pod away."
            raise wrong(allowed, fix, "fail", killed[0])
        return self

    @property
    def listed(self) -> tuple[int, ...]:
        """The codes of the list that is set, in ascending order."""
        return tuple(chain.from_iterable(_codes(each, at) for at, each in enumerate(self.restart or self.fail or ())))

    def is_permanent(self, code: int) -> bool:
        """Whether an exit code ends the job for good, so that no restart can help.

        :param code: the process's exit code; 128 plus the signal's number if a signal ended the process.
        """
        return code not in KILLED and (code in self.listed) == (self.fail is not None)
