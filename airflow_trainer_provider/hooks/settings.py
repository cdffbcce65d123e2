"""The ``[trainer]`` section of Airflow's configuration, checked."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from airflow.configuration import AIRFLOW_HOME
from airflow.providers.common.compat.sdk import conf

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.get_provider_info import get_provider_info
from airflow_trainer_provider.hooks.backends import AUTO, BACKENDS
from airflow_trainer_provider.spec.validation import choice

_SECTION = "trainer"
_LOG_REPLICAS = ("all", "leader", "none")


@dataclass(frozen=True)
class Settings:
    """The options of ``[trainer]``; their meaning stands in :mod:`airflow_trainer_provider.get_provider_info`.

    :param poll_interval: seconds.
    :param local_keep: None for ever.
    """

    backend: str
    namespace: str
    local_root: Path
    local_keep: timedelta | None
    poll_interval: float
    log_replicas: str
    failure_log_lines: int
    log_streams: int


def load_settings() -> Settings:
    """Read the options.

    :raises SpecError: one of them has a value that is not allowed.
    """
    days = _number("local_keep_days", 0, 36500)
    settings = Settings(
        backend=_word("backend", (AUTO, *BACKENDS)),
        namespace=_get("namespace"),
        local_root=Path(_get("local_root") or f"{AIRFLOW_HOME}/trainer").expanduser().absolute(),
        local_keep=timedelta(days=days) if days else None,
        poll_interval=_number("poll_interval", 0.05, 60),
        log_replicas=_word("log_replicas", _LOG_REPLICAS),
        failure_log_lines=_whole("failure_log_lines", 1, 1000),
        log_streams=_whole("log_streams", 1, 100_000),
    )
    return _one_for_all(settings)


@functools.lru_cache(maxsize=1)
def _one_for_all(settings: Settings) -> Settings:
    """Equal settings are one object: each waiting trigger holds them."""
    return settings


def _get(option: str) -> str:
    # Airflow 3.1 knows a provider's defaults in some of its processes only.
    options = get_provider_info()["config"][_SECTION]["options"]
    return str(conf.get(_SECTION, option, fallback=options[option]["default"]))


def _word(option: str, allowed: tuple[str, ...]) -> str:
    value = _get(option)
    if value not in allowed:
        raise SpecError([choice(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
    return value


def _number(option: str, least: float, most: float) -> float:
    text = _get(option)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if least <= value <= most:
        return value
    allowed = f"a number from {least:g} to {most:g}"
    raise SpecError([Problem(f"[{_SECTION}] {option}", text, allowed, "Correct Airflow's configuration.")])


def _whole(option: str, least: int, most: int) -> int:
    value = _number(option, least, most)
    if value.is_integer():
        return int(value)
    allowed = f"a whole number from {least} to {most}"
    raise SpecError([Problem(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
