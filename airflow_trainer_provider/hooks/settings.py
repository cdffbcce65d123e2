"""Reads and validates the ``[trainer]`` section of Airflow's configuration."""

from __future__ import annotations

import functools
import ipaddress
import math
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from airflow.configuration import AIRFLOW_HOME
from airflow.providers.common.compat.sdk import conf

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.get_provider_info import get_provider_info
from airflow_trainer_provider.hooks.backends import check_backend
from airflow_trainer_provider.spec.validation import choice
from airflow_trainer_provider.spec.values.labels import is_key
from airflow_trainer_provider.spec.values.names import is_label
from airflow_trainer_provider.text.urls import is_web_url

_SECTION = "trainer"
_LOG_REPLICAS = ("all", "leader", "none")
#: The placeholders for the job in the address of a dashboard.
_PLACES = ("{namespace}", "{kind}", "{resource}", "{name}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Environment variables that set Airflow's options, such as the Fernet key and the address of its database.
_OF_AIRFLOW = re.compile(r"^AIRFLOW__|FERNET", re.IGNORECASE)


@dataclass(frozen=True)
class Settings:
    """The options of ``[trainer]``, which :mod:`airflow_trainer_provider.get_provider_info` documents.

    :param deployment: the identifier of this Airflow; empty if neither the option nor ``[api] base_url`` sets it.
    :param poll_interval: a time in seconds.
    :param local_keep: None keeps the folders for ever.
    :param node_pool_label: None if the option is not set.
    :param git_image: empty if the option is not set, so that a volume has to name its image; ``s3_image`` likewise.
    :param presets_folder: None if there are no presets.
    :param policies_folder: None if there are no policies.
    :param dashboard_url: empty if there is no link.
    """

    backend: str
    namespace: str
    deployment: str
    local_root: Path
    local_keep: timedelta | None
    poll_interval: float
    worker_exit_seconds: float
    log_replicas: str
    failure_log_lines: int
    log_streams: int
    exec_plugin_env: tuple[str, ...]
    node_pool_label: str | None
    git_image: str
    s3_image: str
    presets_folder: Path | None
    policies_folder: Path | None
    dashboard_url: str


def load_settings() -> Settings:
    """Read the options.

    :raises SpecError: an option has an invalid value.
    """
    days = _number("local_keep_days", 0, 36500)
    settings = Settings(
        backend=_backend("backend"),
        namespace=_namespace("namespace"),
        deployment=_get("deployment") or _address(),
        local_root=Path(_get("local_root") or f"{AIRFLOW_HOME}/trainer").expanduser().absolute(),
        local_keep=timedelta(days=days) if days else None,
        poll_interval=_number("poll_interval", 0.05, 60),
        worker_exit_seconds=_number("worker_exit_seconds", 0, 120),
        log_replicas=_word("log_replicas", _LOG_REPLICAS),
        failure_log_lines=_whole("failure_log_lines", 1, 1000),
        log_streams=_whole("log_streams", 1, 100_000),
        exec_plugin_env=_variables("exec_plugin_env"),
        node_pool_label=_label("node_pool_label"),
        git_image=_get("git_image").strip(),
        s3_image=_get("s3_image").strip(),
        presets_folder=_folder("presets_folder"),
        policies_folder=_folder("policies_folder"),
        dashboard_url=_address_of("dashboard_url"),
    )
    return _one_for_all(settings)


@functools.lru_cache(maxsize=1)
def _one_for_all(settings: Settings) -> Settings:
    """Return the same object for equal settings, since each waiting trigger refers to its settings."""
    return settings


def _get(option: str) -> str:
    # Airflow 3.1 loads the defaults of a provider's options only in some of its processes.
    options = get_provider_info()["config"][_SECTION]["options"]
    return str(conf.get(_SECTION, option, fallback=options[option]["default"]))


def _address() -> str:
    """The address of this Airflow's UI, which is unique to this Airflow, and which all of its components know.

    Empty if the address is not unique, such as localhost.
    """
    url = urlsplit(conf.get("api", "base_url", fallback=None) or "")
    return "" if _is_of_any_machine(url.hostname or "") else f"{url.netloc}{url.path}".rstrip("/").lower()


def _is_of_any_machine(host: str) -> bool:
    host = host.rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _word(option: str, allowed: tuple[str, ...]) -> str:
    value = _get(option)
    if value not in allowed:
        raise SpecError([choice(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
    return value


def _backend(option: str) -> str:
    value = _get(option)
    check_backend(f"[{_SECTION}] {option}", value, fix="Correct Airflow's configuration.")
    return value


def _variables(option: str) -> tuple[str, ...]:
    names = tuple(name for name in (each.strip() for each in _get(option).split(",")) if name)
    wrong = next((name for name in names if not _VARIABLE.fullmatch(name) or _OF_AIRFLOW.search(name)), None)
    if wrong is None:
        return names
    allowed = "names of environment variables, separated by commas; none of Airflow's own configuration"
    raise SpecError([Problem(f"[{_SECTION}] {option}", wrong, allowed, "Correct Airflow's configuration.")])


def _folder(option: str) -> Path | None:
    text = _get(option)
    return Path(text).expanduser().absolute() if text else None


def _address_of(option: str) -> str:
    value = _get(option).strip()
    filled = functools.reduce(lambda text, place: text.replace(place, "x"), _PLACES, value)
    if value and not is_web_url(filled):
        allowed = (
            f"an http or https URL without user and password, in which {', '.join(_PLACES)} stand for the job's own"
        )
        raise SpecError([Problem(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
    return value


def _namespace(option: str) -> str:
    value = _get(option)
    if not is_label(value):
        allowed = "the name of a namespace: lowercase letters, digits and '-'"
        raise SpecError([Problem(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
    return value


def _label(option: str) -> str | None:
    value = _get(option)
    if value and not is_key(value):
        allowed = "the key of a label, e.g. cloud.google.com/gke-nodepool; empty for none"
        raise SpecError([Problem(f"[{_SECTION}] {option}", value, allowed, "Correct Airflow's configuration.")])
    return value or None


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
