"""Whether Airflow's API server answers, where a request that it does not answer ends the task."""

from __future__ import annotations

import ssl
from urllib.request import urlopen

#: Seconds for which the API server is waited for that may be away.
_HEALTH_SECONDS = 2.0
#: What a supervisor logs that handles errors of any kind.
_HANDLES_ERRORS = "Unhandled exception while handling task request"


def check_api_server() -> None:
    """See that Airflow's API server answers, where a request that it does not answer ends the task.

    That is so in a worker of Airflow 3.1: the supervisor there handles no error of the network.

    :raises OSError: it does not answer.
    """
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder
    from airflow.sdk.execution_time.supervisor import WatchedSubprocess

    # The triggerer has a class of its own, and its supervisor asks no other machine.
    if type(getattr(task_runner, "SUPERVISOR_COMMS", None)) is not CommsDecoder:
        return
    if _HANDLES_ERRORS in WatchedSubprocess.handle_requests.__code__.co_consts:
        return
    # Without credentials, and only whether there is an answer: any certificate will do.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urlopen(f"{_execution_api().rstrip('/')}/health", timeout=_HEALTH_SECONDS, context=context):
        pass


def _execution_api() -> str:
    """The address that Airflow gives the supervisor."""
    from airflow.providers.common.compat.sdk import conf

    base_url = conf.get("api", "base_url", fallback="/")
    if base_url.startswith("/"):
        base_url = f"http://localhost:8080{base_url}"
    return str(conf.get("core", "execution_api_server_url", fallback=None) or f"{base_url.rstrip('/')}/execution/")
