"""Checks a job against policies. The values that its replicas get are checked, wherever they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_trainer_provider.errors import PolicyViolation, Violation
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan
from airflow_trainer_provider.policies.effective import Setting, Settings
from airflow_trainer_provider.policies.library import PolicyFile
from airflow_trainer_provider.policies.manifest_values import ManifestSettings
from airflow_trainer_provider.policies.policy import Rule, complaints, is_locked_to, wording


def check_policies(policies: Sequence[PolicyFile], job: Plan) -> None:
    """Refuse a job that a policy does not allow.

    :param policies: the policies that apply to the job.
    :param job: the job as laid out, or a user's own manifest.
    :raises PolicyViolation: naming each field, its value, the rule, the reason, and the policy's file.
    """
    settings = Settings(job) if isinstance(job, JobPlan) else ManifestSettings(job)
    found = [
        Violation(setting.field, setting.value, wanted, rule.reason, str(each.file))
        for each in policies
        for rule in each.policy.rules
        for setting in settings.at(rule.path)
        for wanted in _violated(rule, setting)
    ]
    if found:
        raise PolicyViolation(_once(found))


def _violated(rule: Rule, setting: Setting) -> Iterator[str]:
    """The requirements of a rule that a setting does not meet, in words."""
    if setting.is_given and rule.forbidden:
        yield wording("forbidden", True)
    if setting.is_node and rule.required and not setting.is_given:
        yield wording("required", True)
    is_locked = rule.locked is not None and (setting.is_node or setting.value is not None)
    if is_locked and not is_locked_to(setting.value, rule.locked_value):
        yield wording("locked", rule.locked)
    if setting.value is not None:
        # A sidecar may need less than the training, so min and step do not apply to it.
        yield from complaints(rule, setting.value, least=setting.is_node)


def _once(found: Sequence[Violation]) -> list[Violation]:
    """The violations, where a value that several replicas get is named once. A value may be a list, which has no
    hash.
    """
    return list({str(each): each for each in found}.values())
