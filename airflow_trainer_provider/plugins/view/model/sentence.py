"""The sentence that describes a training's state and its reason, for the page and the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from airflow_trainer_provider.job.diagnosis.causes import ON_THE_WAY
from airflow_trainer_provider.job.queue.place import QueuePlace
from airflow_trainer_provider.plugins.view.model.state import JobState
from airflow_trainer_provider.plugins.view.model.values import (
    count,
    duration,
    listed,
    mapping,
    mappings,
    moment,
    number,
    seconds_between,
    shortened,
    text,
    texts,
    whole,
)

SUMMARY_LENGTH = 90
DETAIL_LENGTH = 160
#: The last line of a traceback: the exception, with its message.
_EXCEPTION = re.compile(r"[\w.]+(:.*)?")


class Sentence(NamedTuple):
    """The text at the top of a view.

    :param summary: the state and its reason; complete enough to be read alone.
    :param detail: further information; None if there is none.
    """

    summary: str
    detail: str | None = None


def sentence_of(state: JobState) -> Sentence:
    """The state of a training in words.

    :param state: the state of the task and its job.
    """
    said = _silent(state) or _without_job(state) or _of_phase(state)
    detail = shortened(said.detail, DETAIL_LENGTH) if said.detail else None
    return Sentence(shortened(said.summary, SUMMARY_LENGTH), detail)


def _silent(state: JobState) -> Sentence | None:
    if state.silent_since is None or not state.is_active:
        return None
    if state.is_between_tries:
        return Sentence(
            f"Last known as {state.phase}: the task waits for its next try.",
            "The next try takes over the job if that still runs. What is shown is the last that is known of it.",
        )
    who = state.waiter or "process that waits for the job"
    return Sentence(
        f"Last known as {state.phase}: the {who} does not report.",
        "The job itself may go on. What is shown is the last that is known of it.",
    )


def _without_job(state: JobState) -> Sentence | None:
    if not state.is_training:
        return Sentence("This task runs no training.", "The tab is for tasks of the trainer provider's operators.")
    if state.is_earlier_try:
        how = "succeeded" if state.phase == "succeeded" else "did not succeed"
        detail = "Airflow clears what a try has in XCom when the next one starts; its log is kept."
        return Sentence(f"Try {state.try_number} {how}.", detail)
    if state.job:
        return None
    return _NO_JOB.get(state.task_state or "none", _NOT_BEGUN)


_NOT_BEGUN = Sentence("No job yet: the task has not started.", "This page shows the job as soon as there is one.")
_FAILED_BEFORE = Sentence("The task failed before it started a job.", "The task's log says why.")
_NO_JOB: Mapping[str, Sentence] = {
    "queued": Sentence("No job yet: Airflow has queued the task.", _NOT_BEGUN.detail),
    "running": Sentence("No job yet: the task is about to submit it.", _NOT_BEGUN.detail),
    "deferred": Sentence("No job yet: the task is about to submit it.", _NOT_BEGUN.detail),
    "failed": _FAILED_BEFORE,
    "up_for_retry": _FAILED_BEFORE,
    "success": Sentence("The task succeeded without a job.", "It only rendered the job, or was marked as success."),
    "skipped": Sentence("The task was skipped: there is no job."),
    "upstream_failed": Sentence("No job: a task before this one failed."),
    "removed": Sentence("No job: the task is not part of the DAG any more."),
}


def _of_phase(state: JobState) -> Sentence:
    if state.is_released:
        return Sentence(
            "The job was started; this task does not wait for it.", "A sensor, or the cluster, says how it goes."
        )
    return _PHASES.get(state.phase or "", _unknown)(state)


def _unknown(state: JobState) -> Sentence:
    return Sentence("The job's state is not known.", state.message)


def _queued(state: JobState) -> Sentence:
    waited = _waited(state)
    if state.place:
        return Sentence(_in_queue(state, state.place), _joined(waited, _expected_start(state, state.place)))
    if state.queue:
        return Sentence(_in_unknown_place(state), waited)
    return _short_of_nodes(state) or Sentence(
        _colon("Waiting to start", state.message or state.reason or "the reason is not known"), waited
    )


def _in_queue(state: JobState, place: QueuePlace) -> str:
    where = place.where()
    if where is None:
        return _in_unknown_place(state)
    lacks = place.missing[0].text() if place.missing else None
    return _colon(where[0].upper() + where[1:], lacks)


def _in_unknown_place(state: JobState) -> str:
    why = state.message or "its position and what is missing are not known"
    return f"Waiting in queue {state.queue}: {why}.".replace("..", ".")


def _expected_start(state: JobState, place: QueuePlace) -> str | None:
    """When the queue may admit the job; or, if its position is unknown, why."""
    if place.estimate is None:
        return place.estimate_why if place.position is None else None
    soonest = seconds_between(state.as_of, moment(place.estimate.earliest))
    latest = seconds_between(state.as_of, moment(place.estimate.latest))
    if soonest is None or not latest:
        return None
    when = f"in {duration(soonest)} to {duration(latest)}" if soonest else f"within {duration(latest)}"
    return f"It may start {when}."


def _joined(*parts: str | None) -> str | None:
    return " ".join(filter(None, parts)) or None


def _waited(state: JobState) -> str | None:
    seconds = seconds_between(state.queued_at, state.as_of)
    return f"It has been waiting for {duration(seconds)}." if seconds is not None else None


def _short_of_nodes(state: JobState) -> Sentence | None:
    waiting = [row for row in state.replicas if row.get("reason") == "Unschedulable"]
    if not waiting and state.reason != "Unschedulable":
        return None
    if not waiting:
        return Sentence("No node has room for the job.", state.message or _waited(state))
    total = len(state.replicas)
    names = listed([str(row.get("name")) for row in waiting])
    are = "is" if len(waiting) == 1 else "are"
    rest = "; the others wait for them" if len(waiting) < total else ""
    detail = f"{names} {are} waiting for a node{rest}. {_waited(state) or ''}"
    return Sentence(f"No node has room for {len(waiting)} of {count(total, 'replica')}.", detail.strip())


def _starting(state: JobState) -> Sentence:
    lacking = _short_of_nodes(state)
    if lacking:
        return lacking
    if state.replicas:
        return _starting_replicas(state)
    if state.message:
        return Sentence(_colon("Starting", state.message), _waited(state))
    return Sentence("The job was submitted; its state has not been reported yet.", _waited(state))


def _starting_replicas(state: JobState) -> Sentence:
    stuck = next((row for row in state.replicas if is_stuck(row)), None)
    if stuck:
        return Sentence(f"{stuck['name']} cannot start: {stuck['reason']}.", text(stuck.get("message")))
    running = _running_replicas(state)
    late = [str(row["name"]) for row in state.replicas if not row.get("started_at")]
    is_or_are = "is" if len(late) == 1 else "are"
    starting = f"{listed(late)} {is_or_are} starting." if late else _waited(state)
    replicas, verb = count(len(state.replicas), "replica"), "runs" if running == 1 else "run"
    return Sentence(f"Starting: {running} of {replicas} {verb}.", state.message or starting)


def is_stuck(row: Mapping[str, Any]) -> bool:
    """Whether a replica waits for a reason that does not pass by itself, such as an image that cannot be pulled.

    :param row: the replica's row in XCom ``status``.
    """
    reason = text(row.get("reason"))
    return reason not in ON_THE_WAY and not row.get("started_at")


def _running_replicas(state: JobState) -> int:
    return sum(bool(row.get("started_at")) and not row.get("finished_at") for row in state.replicas)


def _running(state: JobState) -> Sentence:
    running, total = _running_replicas(state), len(state.replicas) or whole(state.request.get("nodes")) or 0
    verb = "training" if state.progress else "running"
    if total and state.replicas and running < total:
        summary = f"{running} of {count(total, 'replica')} {'is' if running == 1 else 'are'} {verb}."
    elif total > 1:
        summary = f"All {count(total, 'replica')} are {verb}."
    else:
        summary = f"The job is {verb}."
    if not state.progress:
        return Sentence(summary, "The script reports no progress, so step, rate and end are unknown.")
    return Sentence(summary, _restarts(state))


def _restarts(state: JobState) -> str | None:
    """How often the job was restarted, and how many steps were repeated."""
    rows = mappings(state.progress.get("restarts"))
    times = max(state.restarts, len(rows))
    if not times:
        return None
    often = "Restarted once" if times == 1 else f"Restarted {times} times"
    lost = sum(whole(row.get("lost_steps")) or 0 for row in rows)
    if not lost:
        return f"{often}."
    return f"{often}; {count(lost, 'step')} {'was' if lost == 1 else 'were'} repeated."


def _restarting(state: JobState) -> Sentence:
    return Sentence(_colon("The job is starting again", state.message or state.reason), _resumes(state))


def _resumes(state: JobState) -> str | None:
    step = whole(mapping(state.progress.get("checkpoint")).get("step"))
    return f"The last checkpoint is of step {step:,}." if step is not None else None


def _suspended(state: JobState) -> Sentence:
    # A suspended job has no pods.
    summary = _colon("Suspended", state.message) if state.message else "Suspended. It holds no GPU."
    queue = f" puts the job back into queue {state.queue}" if state.queue else " starts its replicas over"
    return Sentence(summary, f"A resume{queue}. {_resumes(state) or ''}".strip())


def _succeeded(state: JobState) -> Sentence:
    total = len(state.replicas)
    ran = seconds_between(state.started_at, state.finished_at)
    parts = [f"Ended after {duration(ran)}." if ran is not None else None, _restarts(state)]
    detail = " ".join(filter(None, parts)) or None
    error = text(state.returned.get("result_error"))
    if error:
        return Sentence("The job succeeded, and its result could not be read.", error)
    metric = next(iter(_numbers(state.returned.get("metrics")).items()), None)
    done = f"All {count(total, 'replica')} completed" if total > 1 else "The job completed"
    return Sentence(f"{done}: {metric[0]} {metric[1]:.4g}." if metric else f"{done}.", detail)


def _numbers(value: Any) -> dict[str, float]:
    found = {str(name): number(each) for name, each in mapping(value).items()}
    return {name: each for name, each in found.items() if each is not None}


def _failed(state: JobState) -> Sentence:
    failure = state.failure
    if not failure:
        why = state.message or state.reason
        return Sentence(_colon("The job failed", why), "The task's log says more.")
    return Sentence(_error(failure), _consequence(state))


def _error(failure: Mapping[str, Any]) -> str:
    """The error itself: the exception, or the reason."""
    lines = texts(failure.get("traceback"))
    if lines and _EXCEPTION.fullmatch(lines[-1].strip()):
        return lines[-1].strip()
    reason, message = text(failure.get("reason")) or "Failed", text(failure.get("message")) or ""
    return message if message.startswith(reason) else _colon(reason, message)


def _consequence(state: JobState) -> str:
    failure, parts = state.failure, []
    replica = text(failure.get("replica"))
    if replica:
        rank = whole(failure.get("rank"))
        others = len(mappings(failure.get("others")))
        who = replica if rank is None else f"{replica} (rank {rank})"
        stopped = f"; the other {count(others, 'replica')} stopped" if others else ""
        parts.append(f"{who} failed first{stopped}.")
    ran = seconds_between(state.started_at, state.finished_at)
    if ran is not None:
        parts.append(f"It had run for {duration(ran)}.")
    resume = _resumes(state) if state.task_state == "up_for_retry" else None
    return " ".join([*parts, *([resume] if resume else [])]) or "The task's log says more."


_MARKED = {
    "success": "marked as success",
    "skipped": "skipped",
    "restarting": "cleared",
}
#: Other possible reasons for the state.
_WHY_MARKED = {"skipped": "It was marked as skipped, or the time of its run was over (dagrun_timeout)."}


def _cancelled(state: JobState) -> Sentence:
    if not state.is_cut_off:
        why = text(state.failure.get("message")) or state.message or state.reason
        return Sentence(_colon("The job was cancelled", why))
    how = _MARKED.get(state.task_state or "")
    if how:
        return Sentence(f"The task was {how} while its job ran: the job was ended.", _WHY_MARKED.get(how))
    return Sentence(
        "The task ended before its job had: the job was ended.",
        "The task was marked as failed, its time was over, or Airflow ended it; the task's log says which.",
    )


def _colon(what: str, why: str | None) -> str:
    return f"{what}: {why.rstrip('. ')}." if why else f"{what}."


_PHASES: Mapping[str, Callable[[JobState], Sentence]] = {
    "queued": _queued,
    "starting": _starting,
    "running": _running,
    "restarting": _restarting,
    "suspended": _suspended,
    "succeeded": _succeeded,
    "failed": _failed,
    "cancelled": _cancelled,
}
