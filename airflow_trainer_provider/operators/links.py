"""Links of a task to pages about its job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import RuntimeTaskInstanceProtocol, TaskInstanceKey

    from airflow_trainer_provider.job.handle import JobHandle
    from airflow_trainer_provider.job.outcome import JobOutcome

#: The key in a job's result with the address of its MLflow run.
MLFLOW_RUN_URL = "mlflow_run_url"


class ToolLink(BaseOperatorLink):
    """The link to one tool. Airflow shows it while XCom has an address that can be opened.

    :param tool: the tool's name; empty for the first tool of a job whose tools the DAG file does not name.
    """

    def __init__(self, tool: str = "") -> None:
        self.tool = tool

    @property
    def name(self) -> str:
        """The label of the button."""
        return self.tool or "Tool"

    @property
    def xcom_key(self) -> str:
        """The XCom key of the address."""
        return f"_link_ToolLink_{self.tool}" if self.tool else "_link_ToolLink"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address. Airflow calls this at the end of the task, in its process, and stores the address again."""
        handle: JobHandle | None = getattr(operator, "handle", None)
        return self.address(handle) if handle else ""

    def address(self, handle: JobHandle) -> str:
        """The address of the tool; empty if it cannot be opened.

        :param handle: the job.
        """
        from airflow_trainer_provider.job.plan.tools import is_whole

        url = handle.tools.get(self.tool, "") if self.tool else next(iter(handle.tools.values()), "")
        return url if is_whole(url) else ""


class DashboardLink(BaseOperatorLink):
    """The link to the page of the job's main object, at the address from ``[trainer] dashboard_url``."""

    name = "Kubernetes dashboard"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address. Airflow calls this at the end of the task, in its process, and stores the address again."""
        handle: JobHandle | None = getattr(operator, "handle", None)
        return self.address(handle) if handle else ""

    def address(self, handle: JobHandle) -> str:
        """The address; empty if the option is not set, or if the job does not run on a cluster.

        :param handle: the job.
        """
        from airflow_trainer_provider.hooks.settings import load_settings
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        template = load_settings().dashboard_url
        main = TrainerHook.for_job(handle).main_object(handle) if template else None
        return template.format(**main._asdict()) if main else ""


class MlflowLink(BaseOperatorLink):
    """The link to the MLflow run that rank 0 names in its result. It is known once the job has succeeded."""

    name = "MLflow run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; empty if the result has none that may be opened. Airflow calls this in the task's process."""
        from airflow_trainer_provider.text.redaction import secrets_in
        from airflow_trainer_provider.text.urls import is_web_url

        outcome: JobOutcome | None = getattr(operator, "outcome", None)
        result = (outcome.summary or {}).get("result") if outcome else None
        url = result.get(MLFLOW_RUN_URL) if isinstance(result, dict) else None
        return url if isinstance(url, str) and is_web_url(url) and not secrets_in(url) else ""


#: The links that every job has, regardless of its tools.
JOB_LINKS: tuple[BaseOperatorLink, ...] = (DashboardLink(), MlflowLink())


def links_of(tools: Any, presets: Any) -> tuple[BaseOperatorLink, ...]:
    """The links of a task: the links of every job, and one for each tool that is known when the DAG file is parsed.

    :param tools: the operator's parameter, before its templates are rendered.
    :param presets: the operator's parameter, before its templates are rendered; presets may add tools.
    """
    if isinstance(tools, Mapping) and all(isinstance(name, str) and "{{" not in name for name in tools):
        return (*map(ToolLink, tools), *JOB_LINKS)
    return JOB_LINKS if tools is None and presets is None else (ToolLink(), *JOB_LINKS)


def push_links(operator: BaseOperator, handle: JobHandle, ti: RuntimeTaskInstanceProtocol) -> None:
    """Push the addresses of a task's links, so that Airflow shows them while the job runs, not only after its end.

    :param operator: the task.
    :param handle: the task's job.
    :param ti: the task instance, in the process that runs it.
    """
    links = [link for link in operator.operator_extra_links if isinstance(link, (ToolLink, DashboardLink))]
    # In the stored DAG a mapped task has a single link to a tool, regardless of the names of its instances' tools.
    is_mapped = ti.map_index is not None and ti.map_index >= 0
    has_tools = any(isinstance(link, ToolLink) for link in links)
    for link in [*links, ToolLink()] if has_tools and is_mapped else links:
        if url := link.address(handle):
            ti.xcom_push(key=link.xcom_key, value=url)
