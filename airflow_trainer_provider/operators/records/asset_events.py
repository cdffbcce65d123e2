"""The ``extra`` of a task's asset events: data of the task's job."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

log = logging.getLogger(__name__)


def add_to_asset_events(context: Context, handle: JobHandle, outcome: JobOutcome) -> None:
    """Add a job's name, framework, metrics and result to the ``extra`` of the task's asset events.

    Existing keys are kept. An asset that Airflow does not find is logged, and never fails the task.

    :param context: the task's context.
    :param handle: the job, which has succeeded.
    :param outcome: the job's outcome.
    """
    outlets = context["ti"].task.outlets
    if not outlets:
        return
    from airflow.sdk.definitions.asset import Asset, AssetRef

    # The task itself adds events to an asset alias; outlets of other types have no events.
    for asset in (each for each in outlets if isinstance(each, (Asset, AssetRef))):
        try:
            event: Any = context["outlet_events"][asset]
            event.extra = {**_extra(handle, outcome), **event.extra}
        except Exception as error:
            log.warning("The event of %r gets no metrics of training job %s: %s", asset, handle.name, error)


def _extra(handle: JobHandle, outcome: JobOutcome) -> dict[str, Any]:
    from airflow_trainer_provider.job.result import without_large_value

    return {
        "job": handle.name,
        "framework": handle.framework,
        "metrics": {name: value for name, value in outcome.figures["metrics"].items() if _is_finite(value)},
        "result": without_large_value(outcome.figures).get("result"),
    }


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # An integer that is too large for a float.
        return False
