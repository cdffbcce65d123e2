"""The values of a metric over the steps, thinned so that its smallest and largest values stay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

#: The maximum number of points of a metric, and of all metrics together.
MOST_POINTS = 500
_MOST_TOGETHER = 3000
#: Significant digits of a value in the history. The last value of a metric is also kept elsewhere, with all digits.
_DIGITS = 7


# With slots, because a triggerer holds thousands of points for each of its jobs.
@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric.

    :param attempt: of the job.
    :param step: None where the script reports no steps.
    :param at: seconds since 1970.
    :param value: None where it is not finite.
    """

    attempt: int
    step: int | None
    at: float
    value: float | None


@dataclass
class History:
    """All metrics of a job."""

    _points: dict[str, list[Point]] = field(default_factory=dict)

    def add(self, name: str, attempt: int, step: int | None, at: float, value: float) -> None:
        """Add a value. One for the same step replaces the earlier one."""
        points = self._points.setdefault(name, [])
        kept = float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        point = Point(attempt, step, round(at, 3), kept)
        last = points[-1] if points else None
        if last and step is not None and (last.attempt, last.step) == (attempt, step):
            points[-1] = point
            return
        points.append(point)
        if len(points) > self._limit:
            self._points[name] = thinned(points, self._limit)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """As columns, an entry for each attempt."""
        limit = self._limit
        return {
            name: list(_columns(points if len(points) <= limit else thinned(points, limit)))
            for name, points in self._points.items()
        }

    @property
    def _limit(self) -> int:
        """How many points each metric may have."""
        return min(MOST_POINTS, _MOST_TOGETHER // max(1, len(self._points)))

    @classmethod
    def parse(cls, value: Any) -> History:
        """Read the value that :meth:`to_json` returned.

        :raises Exception: it is something else.
        """
        return cls(
            {
                name: [
                    Point(
                        int(entry["attempt"]),
                        None if step is None else int(step),
                        float(at),
                        None if value is None else float(value),
                    )
                    for entry in entries
                    for step, at, value in zip(entry["step"], entry["at"], entry["value"], strict=True)
                ]
                for name, entries in value.items()
            }
        )


def thinned(points: Sequence[Point], limit: int) -> list[Point]:
    """Some of the points: the first and the last ones, and the smallest and largest of each stretch of steps.

    :param points: in their order.
    :param limit: how many at most; at least 5.
    """
    # Fewer than the limit, so that the next points need no thinning.
    share = limit // 5
    older, newest = points[:-share], points[-share:]
    kept = {0}
    for bucket in _buckets(older, share):
        values = [at for at in bucket if older[at].value is not None]
        # A gap remains a gap.
        kept.update([at for at in bucket if older[at].value is None][:1])
        if values:
            kept.update({min(values, key=lambda at: _value(older[at])), max(values, key=lambda at: _value(older[at]))})
    return [older[at] for at in sorted(kept)] + list(newest)


def _buckets(points: Sequence[Point], count: int) -> Iterator[list[int]]:
    """The indices of points, grouped into stretches of the same number of steps."""
    places = [0, *accumulate(_done(before, after) for before, after in pairwise(points))]
    width = places[-1] / count or 1
    buckets: dict[int, list[int]] = {}
    for at, place in enumerate(places):
        buckets.setdefault(min(int(place / width), count - 1), []).append(at)
    yield from buckets.values()


def _done(before: Point, after: Point) -> int:
    if before.step is None or after.step is None or before.attempt != after.attempt:
        return 1
    return max(after.step - before.step, 0)


def _value(point: Point) -> float:
    return 0.0 if point.value is None else point.value


def _columns(points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    entry: dict[str, Any] | None = None
    for point in points:
        if entry is None or entry["attempt"] != point.attempt:
            if entry:
                yield entry
            entry = {"attempt": point.attempt, "step": [], "at": [], "value": []}
        entry["step"].append(point.step)
        entry["at"].append(point.at)
        entry["value"].append(point.value)
    if entry:
        yield entry
