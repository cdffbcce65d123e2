"""What a user applies by hand: a batch Job of one pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SCRIPT = """
i=0
while [ ! -e /tmp/go ] && [ "$i" -lt {ticks} ]; do echo "line $i"; i=$((i + 1)); sleep 0.5; done
{end}
"""
_RESULT = """echo '{"metrics": {"loss": 0.25}}' > /dev/termination-log"""


def batch_job(
    name: str, *, ticks: int = 6, end: str = _RESULT, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The manifest of a Job that writes a line each half second.

    :param ticks: how many lines.
    :param end: what its script does after them.
    """
    container = {
        "name": "main",
        "image": "trainer.test/tiny:test",
        "resources": {"requests": {"cpu": "10m"}},
        "command": ["sh", "-c", _SCRIPT.format(ticks=ticks, end=end)],
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "template": {"spec": pod},
        },
    }
