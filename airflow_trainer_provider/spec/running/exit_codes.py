"""Which exit codes of a replica start a job again, and which end it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, wrong

#: Exit codes of a process that failed; one that a signal ended has 128 and the signal's number.
_FIRST, _LAST = 1, 255
#: Those of SIGKILL and SIGTERM: the kernel ends a process so that holds too much memory, and the cluster one that it
#: suspends or takes away. They say nothing of the training, and never end a job for good.
KILLED = (137, 143)
_ALLOWED = f"a list of exit codes from {_FIRST} to {_LAST}, and of ranges of them such as '128-255'"
_CODES = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


def _ranges(value: Any) -> tuple[str, ...]:
    """The same codes always as the same texts: in order, and with neighbours in one range."""
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
    """Which exit codes of a replica start the job again, as far as ``backoff_limit`` allows, and which end it for good.

    :param restart: a list of codes and ranges of them (``[75, "128-255"]``); every other code ends the job.
    :param fail: codes, likewise, that end the job; after every other one it is started again. Those of SIGKILL and
        SIGTERM, 137 and 143, are none of them.
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
        """Each code that is listed, in order."""
        return tuple(chain.from_iterable(_codes(each, at) for at, each in enumerate(self.restart or self.fail or ())))

    def is_permanent(self, code: int) -> bool:
        """Whether no restart can help after a failure.

        :param code: of the process, with 128 and the signal's number where a signal ended it.
        """
        return code not in KILLED and (code in self.listed) == (self.fail is not None)
