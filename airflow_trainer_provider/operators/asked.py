"""The job that a task asks for: the fields of presets, the task's own fields, and the policies that apply to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_trainer_provider.job.backend import Admit
    from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
    from airflow_trainer_provider.policies.library import PolicyFile
    from airflow_trainer_provider.presets.library import Preset
    from airflow_trainer_provider.presets.merge import Merged
    from airflow_trainer_provider.spec import TrainJobSpec

#: The sources of a job's fields that are in the DAG file.
TASK, TIMEOUT = "the task", "execution_timeout"


def asked_for(presets: Any, fields: Mapping[str, Any], deadline: int | None) -> Merged:
    """Merge the presets of a task and its own fields.

    :param presets: the operator's parameter, as rendered.
    :param fields: the spec's fields from the operator; None means unset.
    :param deadline: the default for ``active_deadline_seconds``, in seconds; None for no default.
    :raises SpecError: a preset does not exist or is invalid, or a field is not a plain value.
    """
    from airflow_trainer_provider.presets.library import preset_names
    from airflow_trainer_provider.presets.merge import merge
    from airflow_trainer_provider.spec import given_fields

    named = _load(preset_names(presets))
    bound = {} if deadline is None else {"run_policy": {"active_deadline_seconds": deadline}}
    return merge(
        [
            (TIMEOUT, bound),
            *((f"preset {preset.name!r}", preset.fields) for preset in named),
            (TASK, given_fields(fields)),
        ]
    )


def _load(names: Sequence[str]) -> list[Preset]:
    if not names:
        return []
    # Imported here: for a job without presets the command line does not import Airflow.
    from airflow_trainer_provider.hooks.settings import load_settings
    from airflow_trainer_provider.presets.library import load_presets

    return load_presets(load_settings().presets_folder, names)


@dataclass(frozen=True)
class Governed:
    """The policies of this Airflow, and the properties of a task that select the policies for its job.

    :param policies: all policies.
    :param dag_id: the ID of the task's DAG.
    :param tags: the tags of the task's DAG.
    :param namespace: returns the namespace that the job would run in; not called if no policy selects by namespace.
    """

    policies: list[PolicyFile]
    dag_id: str
    tags: Collection[str]
    namespace: Callable[[], str | None]

    def spec(self, asked: Merged) -> TrainJobSpec:
        """The spec, including the values that policies fill in.

        :param asked: the job's fields; the values that policies fill in are added to them.
        :raises SpecError: the fields are not a valid spec.
        """
        from airflow_trainer_provider.policies.fill import fill_in
        from airflow_trainer_provider.spec import parse_spec

        framework = asked.fields.get("framework")
        fill_in(self._chosen(framework if isinstance(framework, str) else None), asked)
        return parse_spec(asked.fields)

    def plan(self, spec: TrainJobSpec) -> JobPlan:
        """Lay a job out, and refuse it if policies do not allow it.

        :param spec: the job's spec.
        :raises SpecError: the framework does not support the spec.
        :raises PolicyViolation: a policy does not allow the job.
        """
        from airflow_trainer_provider.hooks.plan import configured_job
        from airflow_trainer_provider.policies.check import check_policies

        job = configured_job(spec)
        check_policies(self._chosen(job.framework.name), job)
        return job

    def check(self, job: Plan) -> None:
        """Refuse the job of a user's own manifest if policies do not allow it.

        :param job: the job that the manifest describes.
        :raises PolicyViolation: a policy does not allow the job.
        """
        from airflow_trainer_provider.policies.check import check_policies

        check_policies(self._chosen(job.framework.name), job)

    def admission(self, job: Plan) -> Admit | None:
        """A check of the job as completed by its runtime; None if the job has no runtime, or no policy applies to it.

        :param job: the task's job, without the runtime's fields; policies allow it.
        """
        from airflow_trainer_provider.errors import PolicyViolation
        from airflow_trainer_provider.job.plan.plan import JobPlan
        from airflow_trainer_provider.policies.check import check_policies

        ref = job.spec.runtime_name if isinstance(job, JobPlan) else None
        policies = self._chosen(job.framework.name) if ref is not None else []

        def admit(whole: Plan) -> None:
            try:
                check_policies(policies, whole)
            except PolicyViolation as error:
                raise PolicyViolation(
                    [replace(each, field=f"{each.field} (of runtime_ref {ref})") for each in error.violations]
                ) from None

        return admit if policies else None

    def _chosen(self, framework: str | None) -> list[PolicyFile]:
        from airflow_trainer_provider.policies.library import chosen_by_namespace, policies_for
        from airflow_trainer_provider.policies.policy import Subject

        if not self.policies:
            return []
        namespace = self.namespace() if chosen_by_namespace(self.policies) else None
        return policies_for(self.policies, Subject(namespace, self.dag_id, self.tags, framework))
