"""What has to hold of the log of a job, whatever has happened."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from airflow_trainer_provider.cluster.logs import read_deadline
from airflow_trainer_provider.errors import ApiError
from tests.unit.cluster.logs.storm.nodes import EPOCH, SECOND, Nodes, Pod
from tests.unit.cluster.logs.storm.plan import ENOUGH, Job, Plan

#: What a line of a healthy pod may take to be shown, beside what the watch takes, and turns at the permits: seconds.
_PROMPT = 10.0
#: The longest turn at a permit, in seconds.
_TURN = 31.0
#: How long an annotation may take for a reader's end to wait for it, in seconds.
_SAVED = 5.0
#: How many runs' logs the kubelet gives, of a container that does not wait to be started again.
_KEPT = 2


class Check:
    """The checks of one job.

    :param plan: the storm's.
    :param nodes: with all that was written.
    :param job: with all that was shown.
    """

    def __init__(self, plan: Plan, nodes: Nodes, job: Job) -> None:
        self._plan, self._nodes, self._job = plan, nodes, job
        self._pods = [pod for pod in nodes.pods if pod.life.job == job.name]
        self._notes = [text for _, _, text in job.reader.lines if text.startswith("... ")]
        self._shown: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        for at, _, text in job.reader.lines:
            if not text.startswith("... "):
                uid, container, *_ = text.split()
                self._shown[uid, container].append((at, text))

    def all(self) -> None:
        """Check everything."""
        self._the_wait_ends()
        for pod in self._pods:
            for container in pod.runs:
                self._each_line_once(pod, container)
                self._missing_lines_are_named(pod, container)
                self._requests_are_bounded(pod, container)
                self._lines_are_prompt(pod, container)

    def _the_wait_ends(self) -> None:
        """Each log has its bounds, and those that wait for others have theirs after them."""
        job, jobs = self._job, self._plan.jobs
        turns = 1 if self._plan.limit >= ENOUGH else sum(each.containers for each in jobs)
        most = 120 + sum(each.reader.stalled_for for each in jobs)
        most += (read_deadline.LAST_LINES_SECONDS + 15) * max(map(len, job.replicas)) * turns
        took = job.read_at - max(job.reader.begun_at, job.ended_at)
        assert took < most, f"{job.name} has ended, and was read for {took:.0f} of {most:.0f} s"

    def _each_line_once(self, pod: Pod, container: str) -> None:
        shown = [text for _, text in self._shown[pod.uid, container]]
        again = [text for text, count in Counter(shown).items() if count > 1]
        # A cursor that could not be kept shows lines again: better than none.
        keeps = not isinstance(self._plan.saves, ApiError) and self._plan.saves < _SAVED
        if not keeps and self._job.reader.taken_over is not None:
            return
        assert not again, f"twice: {again[:3]}"
        places = {text: place for place, text in enumerate(_written(pod, container))}
        order = [places[text] for text in shown]
        assert order == sorted(order), f"out of order: {shown}"

    def _missing_lines_are_named(self, pod: Pod, container: str) -> None:
        shown = {text for _, text in self._shown[pod.uid, container]}
        # What a survivor of the job writes may be shown.
        until = (self._job.ended_at - self._nodes.began + EPOCH) * SECOND
        missing = [text for text, at in _written(pod, container).items() if text not in shown and at < until]
        named = [note for note in self._notes if f"container {container} in pod {pod.life.name} " in note]
        assert not missing or named or not self._was_there(pod), f"missing without a word: {missing[:3]}"
        if self._is_healthy(pod, container):
            assert not missing, f"a healthy log is not whole: {missing[:3]}; {named}"
            assert not named, f"a healthy log is said to be missing: {named}"

    def _was_there(self, pod: Pod) -> bool:
        """Whether a reader could know of a pod. The end of a job, and that of its pods, come by two watches."""
        is_late = pod.deleted_at is not None and pod.deleted_at <= self._job.reader.begun_at
        return not is_late and self._nodes.known_at.get(pod.uid, math.inf) <= self._job.ended_at

    def _is_healthy(self, pod: Pod, container: str) -> bool:
        is_due = pod.ended_at is not None and pod.ended_at <= self._job.ended_at and self._was_there(pod)
        stays = pod.life.node == "healthy" and pod.life.deleted_after is None
        kept = 1 if pod.life.backs_off else _KEPT
        return is_due and stays and len(pod.runs[container]) <= kept

    def _requests_are_bounded(self, pod: Pod, container: str) -> None:
        seconds = self._job.read_at - self._nodes.began
        most = 30 + 4 * pod.versions + seconds / 2
        assert pod.requests[container] < most, f"{pod.requests[container]} requests for {pod.life.name}/{container}"

    def _lines_are_prompt(self, pod: Pod, container: str) -> None:
        """Lines of a healthy pod come soon where nothing of its own job holds them up."""
        if not self._has_to_be_prompt(pod, container):
            return
        turns = 0 if self._plan.limit >= ENOUGH else self._job.containers
        most = _PROMPT + self._plan.lag + _TURN * turns
        written = _written(pod, container)
        for at, text in self._shown[pod.uid, container]:
            late = at - self._nodes.began - (written[text] / SECOND - EPOCH)
            assert late < most, f"{text} came after {late:.0f} of {most:.0f} s"

    def _has_to_be_prompt(self, pod: Pod, container: str) -> bool:
        reader, plan = self._job.reader, self._plan
        is_held_up = bool(reader.stalls[0] or reader.begins or reader.taken_over is not None)
        # Only for the neighbour there is always a permit.
        has_room = plan.limit >= ENOUGH or self._job is not plan.jobs[0]
        # The lines of a run that the watch did not bring in time come after it.
        is_known = not plan.lag or len(pod.runs[container]) == 1
        is_first = pod.life.name.endswith("-0")
        return pod.life.node == "healthy" and is_first and is_known and has_room and not is_held_up


def _written(pod: Pod, container: str) -> dict[str, int]:
    return {text: at for run in pod.runs[container] for at, text in run.lines}
