"""What a task asks for: its own fields over those of presets, and what policies make of them."""

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

#: The parts of a job's fields that stand in the DAG.
TASK, TIMEOUT = "the task", "execution_timeout"


def asked_for(presets: Any, fields: Mapping[str, Any], deadline: int | None) -> Merged:
    """Merge the presets of a task and its own fields.

    :param presets: the operator's parameter, as rendered.
    :param fields: of the spec, from the operator; None leaves one out.
    :param deadline: seconds after which the cluster ends the job where nothing else says when; None for no such bound.
    :raises SpecError: a preset does not exist, or is wrong; or a field is no plain value.
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
    # The command line needs none of Airflow for a job without presets.
    from airflow_trainer_provider.hooks.settings import load_settings
    from airflow_trainer_provider.presets.library import load_presets

    return load_presets(load_settings().presets_folder, names)


@dataclass(frozen=True)
class Governed:
    """The policies of this Airflow, and the task that they are chosen for.

    :param policies: all of them.
    :param dag_id: of the task.
    :param tags: of its DAG.
    :param namespace: finds out where the job would run in a cluster; not called where no policy is chosen by it.
    """

    policies: list[PolicyFile]
    dag_id: str
    tags: Collection[str]
    namespace: Callable[[], str | None]

    def spec(self, asked: Merged) -> TrainJobSpec:
        """The spec, with what policies fill in.

        :param asked: the job's fields; what is filled in is added.
        :raises SpecError: the fields are no job.
        """
        from airflow_trainer_provider.policies.fill import fill_in
        from airflow_trainer_provider.spec import parse_spec

        framework = asked.fields.get("framework")
        fill_in(self._chosen(framework if isinstance(framework, str) else None), asked)
        return parse_spec(asked.fields)

    def plan(self, spec: TrainJobSpec) -> JobPlan:
        """Lay a job out, and refuse what policies do not allow.

        :param spec: of the job.
        :raises SpecError: the framework cannot do what was asked.
        :raises PolicyViolation: a policy does not allow the job.
        """
        from airflow_trainer_provider.hooks.plan import configured_job
        from airflow_trainer_provider.policies.check import check_policies

        job = configured_job(spec)
        check_policies(self._chosen(job.framework.name), job)
        return job

    def check(self, job: Plan) -> None:
        """Refuse what policies do not allow of a user's own manifest.

        :param job: that the manifest describes.
        :raises PolicyViolation: a policy does not allow the job.
        """
        from airflow_trainer_provider.policies.check import check_policies

        check_policies(self._chosen(job.framework.name), job)

    def admission(self, job: Plan) -> Admit | None:
        """What refuses a job with what a runtime adds to it; None where no policy is for the job, or it has no runtime.

        :param job: as the task has it, which policies allow.
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
