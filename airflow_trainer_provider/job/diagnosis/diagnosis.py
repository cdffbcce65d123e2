"""Determines why a job failed. Pure: status and log lines in, verdict out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_trainer_provider.job.diagnosis.causes import (
    BY_ITSELF,
    INIT,
    SIDECAR,
    Cause,
    FailureKind,
    RetryCanHelp,
    cause_of,
    cause_of_end,
    cause_of_runner,
)
from airflow_trainer_provider.job.diagnosis.last_words import is_result, last_words
from airflow_trainer_provider.job.plan.framework import Framework
from airflow_trainer_provider.job.status import JobStatus, ReplicaStatus
from airflow_trainer_provider.text.printable import last_lines, shorten
from airflow_trainer_provider.text.redaction import redacted_lines
from airflow_trainer_provider.text.storable import storable

#: Text -> the text without secrets.
Mask = Callable[[str], str]
_TRACEBACK = "Traceback (most recent call last):"
#: How a traceback begins, after a launcher's tag such as "[rank1]: ". A syntax error in the script itself has no
#: heading, only the place, which lacks the ", in <function>" of a frame.
_BEGIN = re.compile(
    r"(?P<heading_tag>(?:\S.*)?)Traceback \(most recent call last\):"
    r"|(?P<place_tag>(?:\[\w+\]: )?)  File \".*\", line \d+"
)
#: How a traceback ends: the exception's class, by convention capitalised or in a module, and its message.
_RAISED = re.compile(r"(?:(?:\w+\.)+\w+|[A-Z]\w*)(?::.*)?")
#: How many lines of other processes may come in between.
_FOREIGN_LINES = 50
#: The maximum bytes of each line, and of all lines of one kind, in a verdict, which goes into the log and XCom.
_LONGEST_LINE = 4096
_MOST_BYTES = 65536
#: The maximum characters of the exception's own line in the message.
_LONGEST_WHY = 1000
_CHAINED = ("During handling of the above", "The above exception was the direct cause")
#: Errors of the user's code that the same code will raise again.
_PERMANENT_ERRORS = re.compile(
    r"^(SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError)\b"
)


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a job that did not succeed.

    :param job: the job's name.
    :param phase: how it ended.
    :param reason: one CamelCase word.
    :param message: one sentence for users.
    :param replica: the replica that failed first, e.g. ``worker-1``; None where none did.
    :param rank: the rank of the process that failed first, as far as it is known.
    :param exit_code: of that replica.
    :param signal: the signal that ended it.
    :param retry_can_help: whether the same job, tried again, can succeed.
    :param traceback: the user's traceback; empty where the log holds none. A long one is reduced to its end, at most 64
        KiB.
    :param last_log_lines: of that replica, at most 64 KiB.
    :param others: one row for each of the other replicas.
    :param infrastructure: whether the cluster or the machine failed, and not the user's job.
    :param way_out: one sentence: what to do about it; None where there is no general advice.
    :param kind: what kind of failure it is; the operators raise a separate exception for each kind.
    """

    job: str
    phase: str
    reason: str
    message: str
    replica: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    retry_can_help: RetryCanHelp = "unknown"
    traceback: tuple[str, ...] = ()
    last_log_lines: tuple[str, ...] = ()
    others: tuple[dict[str, Any], ...] = field(default=())
    infrastructure: bool = False
    way_out: str | None = None
    kind: FailureKind = "unknown"

    def text(self) -> str:
        """The verdict for a log, followed by the traceback."""
        head = f"Training job {self.job} {self.phase}: {self.message} Retry can help: {self.retry_can_help}."
        if self.way_out:
            head = f"{head} {self.way_out}"
        return "\n".join([head, *(self.traceback or self.last_log_lines)])

    def to_xcom(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: storable(value) for name, value in vars(self).items()}


def diagnose(
    job: str,
    framework: Framework,
    status: JobStatus,
    log: Sequence[str],
    shown_lines: int = 30,
    mask: Mask = _as_it_is,
) -> Diagnosis:
    """Determine why a job failed.

    :param job: the job's name.
    :param framework: the job's framework, which knows how its launcher names a rank.
    :param status: the job's last status.
    :param log: the last lines of the replica that failed first; empty where they were deleted with its pod.
    :param shown_lines: how many of them to keep.
    :param mask: hides secrets in the shown part of the log. It is applied before lines are cut, because a part of a cut
        secret could remain.
    """
    log = redacted_lines(log)
    culprit = next((replica for replica in status.replicas if replica.name == status.first_failed), None)
    if culprit is None:
        return _without_culprit(job, status)
    if not log and culprit.reason in BY_ITSELF and not is_result(culprit):
        # Kubernetes keeps the end of the log in the pod's status.
        log = (culprit.message or "").splitlines()
    traceback = _traceback(log, framework) if _may_have_raised(culprit) else ()
    rank = _rank(culprit, framework, log)
    cause = _cause(culprit, traceback, log)
    return Diagnosis(
        job=job,
        phase=status.phase.value,
        reason=culprit.reason or "Error",
        message=_message(culprit, rank, traceback, log, mask),
        replica=culprit.name,
        rank=rank,
        exit_code=culprit.exit_code,
        signal=culprit.signal,
        retry_can_help=cause.retry_can_help,
        traceback=last_lines(list(map(mask, traceback)), _LONGEST_LINE, _MOST_BYTES),
        last_log_lines=last_lines(list(map(mask, log[-shown_lines:])), _LONGEST_LINE, _MOST_BYTES),
        others=tuple(_row(replica) for replica in status.replicas if replica is not culprit),
        infrastructure=cause.infrastructure,
        way_out=cause.way_out,
        kind=cause.kind,
    )


def _may_have_raised(culprit: ReplicaStatus) -> bool:
    """Whether a traceback in the log can be the reason for the end. No exception ends a process by SIGKILL or with 0,
    no exception of the training ends another container, and a replica that was disrupted may have logged a traceback
    before.
    """
    by_itself = culprit.signal != "SIGKILL" and culprit.exit_code != 0
    beside = (culprit.reason or "").startswith((INIT, SIDECAR))
    return by_itself and not beside and not cause_of(culprit.reason, culprit.message).infrastructure


def _without_culprit(job: str, status: JobStatus) -> Diagnosis:
    """The verdict on a job in which no replica failed first."""
    reason = status.reason or "Unknown"
    cause = cause_of(reason, status.message)
    return Diagnosis(
        job=job,
        phase=status.phase.value,
        reason=reason,
        message=f"{reason}: {status.message or 'no more is known'}.",
        retry_can_help=cause.retry_can_help,
        others=tuple(_row(replica) for replica in status.replicas),
        infrastructure=cause.infrastructure,
        way_out=cause.way_out,
        kind=cause.kind,
    )


def _message(culprit: ReplicaStatus, rank: int | None, traceback: Sequence[str], log: Sequence[str], mask: Mask) -> str:
    who = f"{culprit.name} (rank {rank})" if rank is not None else culprit.name
    # The message has its own full stop.
    why = (
        shorten(mask(traceback[-1]), _LONGEST_WHY) if traceback else (_said(culprit, log, mask) or "").removesuffix(".")
    )
    return f"{who} failed first: it {_how(culprit)}, {culprit.reason}{f': {why}' if why else ''}."


def _said(culprit: ReplicaStatus, log: Sequence[str], mask: Mask) -> str | None:
    if not is_result(culprit):
        return last_words(mask(culprit.message or ""))
    text, message = "\n".join(log).rstrip(), (culprit.message or "").strip()
    if text.endswith(message):
        # It is not a result, but the last output of the training.
        return mask(message)
    return last_words(mask(text)) if _may_have_raised(culprit) else None


def _how(culprit: ReplicaStatus) -> str:
    if culprit.started_at is None:
        return "never started"
    if culprit.signal:
        return f"was ended by {culprit.signal}"
    if culprit.exit_code is not None:
        return f"ended with exit code {culprit.exit_code}"
    return "was not ready" if (culprit.reason or "").startswith(SIDECAR) else "was lost"


def _cause(culprit: ReplicaStatus, traceback: Sequence[str], log: Sequence[str]) -> Cause:
    if fault := cause_of_runner(log):
        return fault
    if traceback and _PERMANENT_ERRORS.match(traceback[-1]):
        return Cause("no", way_out="Correct the script.", kind="user")
    cause = cause_of(culprit.reason, culprit.message)
    return cause if cause.way_out else cause_of_end(culprit.signal, log) or cause


def _rank(culprit: ReplicaStatus, framework: Framework, log: Sequence[str]) -> int | None:
    matches = (framework.failed_rank.search(line) for line in log) if framework.failed_rank else ()
    return next((int(match["rank"]) for match in matches if match), culprit.rank)


def _traceback(log: Sequence[str], framework: Framework) -> tuple[str, ...]:
    """The user's traceback that ended the process. A chain of exceptions counts as one."""
    blocks = [block for block in _blocks(log) if not _is_launchers(block, framework)]
    if not blocks:
        return ()
    # If several processes share a log, the first one to fail brings the others down. A single process continued after
    # each traceback that it logged, except the last one.
    return tuple(blocks[0 if framework.processes_per_node else -1])


def _blocks(log: Sequence[str]) -> Iterator[list[str]]:
    """All tracebacks, in the order in which they begin."""
    seen: set[int] = set()
    for start, line in enumerate(log):
        begin = None if start in seen else _BEGIN.fullmatch(line)
        if begin is None:
            continue
        tag = begin["heading_tag"] or begin["place_tag"] or ""
        # Lines of other ranks, which have other tags, come in between.
        own = [at for at in range(start, len(log)) if log[at].startswith(tag)]
        lines = [log[at].removeprefix(tag) for at in own]
        places = _block(lines)
        seen.update(own[place] for place in places)
        yield [lines[place] for place in places]


def _is_launchers(block: Sequence[str], framework: Framework) -> bool:
    """Whether a traceback is one of the framework's launcher, which only reports that a process failed."""
    own = framework.launcher_traceback
    return own is not None and own.search(block[-1]) is not None


def _block(lines: Sequence[str], start: int = 0) -> list[int]:
    """The indices of the lines of the traceback that begins at ``start``: frames, the exception's own line, chained
    tracebacks.
    """
    end = _end(lines, start)
    block = [at for at in range(start, end + 1) if at in (start, end) or lines[at].startswith(" ")]
    rest = lines[end + 1 : end + 5]
    if len(rest) > 3 and rest[1].startswith(_CHAINED) and rest[3].startswith(_TRACEBACK):
        return [*block, *range(end + 1, end + 4), *_block(lines, end + 4)]
    return block


def _end(lines: Sequence[str], start: int) -> int:
    """The index of the exception's own line, or of the last line with text where the log ends before it."""
    others = [at for at in range(start + 1, len(lines)) if not lines[at].startswith(" ")]
    if not others:
        return max(at for at in range(start, len(lines)) if lines[at].strip())
    # Processes that share a log without tags write into each other's tracebacks.
    return next((at for at in others[:_FOREIGN_LINES] if _RAISED.fullmatch(lines[at])), others[0])


def _row(replica: ReplicaStatus) -> dict[str, Any]:
    return {
        "replica": replica.name,
        "exit_code": replica.exit_code,
        "signal": replica.signal,
        "reason": replica.reason or ("Running" if replica.started_at else "Unknown"),
    }
