"""Checks that Airflow's API server answers, if a request without an answer would end the task."""

from __future__ import annotations

import ssl
from urllib.request import urlopen

#: The timeout of the health check, in seconds.
_HEALTH_SECONDS = 2.0
#: A log message of supervisors that handle errors of any kind.
_HANDLES_ERRORS = "Unhandled exception while handling task request"


def check_api_server() -> None:
    """Check that Airflow's API server answers, if a request without an answer would end the task.

    This is the case in a worker of Airflow 3.1, whose supervisor does not handle network errors.

    :raises OSError: the API server does not answer.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder
    from airflow.sdk.execution_time.supervisor import WatchedSubprocess

    # A triggerer uses a different class, and its supervisor sends no requests to another machine.
    if type(getattr(task_runner, "SUPERVISOR_COMMS", None)) is not CommsDecoder:
        return
    if _HANDLES_ERRORS in WatchedSubprocess.handle_requests.__code__.co_consts:
        return
    # The request has no credentials and only checks for an answer, so any certificate is accepted.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urlopen(f"{_execution_api().rstrip('/')}/health", timeout=_HEALTH_SECONDS, context=context):
        pass


def _execution_api() -> str:
    """The address of the execution API that Airflow configures for the supervisor."""
    from airflow.providers.common.compat.sdk import conf

    base_url = conf.get("api", "base_url", fallback="/")
    if base_url.startswith("/"):
        base_url = f"http://localhost:8080{base_url}"
    return str(conf.get("core", "execution_api_server_url", fallback=None) or f"{base_url.rstrip('/')}/execution/")
