"""The operator that deletes kept jobs and leftover objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from airflow_trainer_provider.operators.fields import check_names
from airflow_trainer_provider.operators.hidden_fields import HidesSecrets
from airflow_trainer_provider.operators.outcome import fail
from airflow_trainer_provider.text.hidden_values import given

if TYPE_CHECKING:
    from airflow.sdk import Context


class CleanUpTrainJobsOperator(HidesSecrets):
    """Delete this Airflow's kept jobs, and the objects that interrupted submits have left behind.

    A job is deleted if it has ended and its outcome has reached XCom, or if it has ended and its task does not wait for
    it, as with ``wait_for_completion=False``. Jobs that run, and jobs whose task still waits, are not deleted.

    :param older_than: the minimum time since a job's end, or since an object's creation: a timedelta, or seconds.
    :param selector: a Kubernetes label selector for the jobs; None for all jobs.
    :param backend: only the jobs of this backend; None for all backends of the cluster.
    :param namespace: the namespace of the jobs. None uses the connection's, else ``[trainer] namespace``.
    :param kubernetes_conn_id: the connection to the cluster.
    :param list_only: only list the jobs and objects, and delete nothing.
    """

    template_fields: Sequence[str] = (
        "older_than",
        "selector",
        "backend",
        "namespace",
        "kubernetes_conn_id",
        "list_only",
    )
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        older_than: timedelta | float | str = timedelta(days=7),
        selector: str | None = None,
        backend: str | None = None,
        namespace: str | None = None,
        kubernetes_conn_id: str = "kubernetes_default",
        list_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.selector = selector
        self.backend = backend
        self.namespace = namespace
        self.kubernetes_conn_id = kubernetes_conn_id
        self.list_only = list_only

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Delete the jobs and objects.

        :return: one row for each job and object: its kind, name and place, the time of its end or creation, its phase
            and its task.
        """
        from airflow_trainer_provider.errors import TrainJobError
        from airflow_trainer_provider.hooks.backends import AUTO
        from airflow_trainer_provider.hooks.loop import run
        from airflow_trainer_provider.hooks.trainer import TrainerHook

        try:
            age, list_only = self._checked()
            hook = TrainerHook(self.backend or AUTO, self.kubernetes_conn_id, self.namespace)
            found = run(hook.clean_up(age, self.selector, list_only=list_only))
        except TrainJobError as error:
            fail(error)
        for each in found:
            self.log.info("%s %s.", "Would delete" if list_only else "Deleted", each)
        return [each.to_json() for each in found]

    def _checked(self) -> tuple[timedelta, bool]:
        """The validated ``older_than`` and ``list_only``."""
        from pydantic import Field

        from airflow_trainer_provider.errors import Problem, SpecError
        from airflow_trainer_provider.hooks.backends import check_backend
        from airflow_trainer_provider.spec import parse_field
        from airflow_trainer_provider.spec.values.base import Number
        from airflow_trainer_provider.spec.values.limits import MOST_INT32

        is_selected = self.selector is not None
        check_names(self, ("selector", "backend", "namespace", "kubernetes_conn_id"))
        if self.backend is not None:
            check_backend("backend", self.backend, auto=False)
        older_than = given(self.older_than)
        age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        seconds = parse_field("older_than", Annotated[Number, Field(ge=0, le=MOST_INT32)], age)
        list_only = parse_field("list_only", bool, given(self.list_only))
        # A template that renders to empty text would delete more than the author intended.
        empty = {"older_than": seconds is None, "list_only": list_only is None}
        empty["selector"] = is_selected and self.selector is None
        if any(empty.values()):
            fix = "Correct the template, or leave the parameter out."
            raise SpecError([Problem(name, None, "a value", fix) for name, is_empty in empty.items() if is_empty])
        return timedelta(seconds=seconds), list_only
