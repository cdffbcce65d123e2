"""What no pod template may say."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.registry import BACKENDS
from tests.unit.kinds.specs import job_of


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("restartPolicy", "Always", "run_policy.backoff_limit"),
        ("terminationGracePeriodSeconds", 90, "run_policy.grace_period_seconds"),
    ],
)
def test_what_the_run_policy_says_is_refused(backend, field, value, instead):
    job = job_of("mpi", pod_template={"spec": {field: value}})

    with pytest.raises(SpecError) as refused:
        ClusterBackend(backend, None, "default").check(job)

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == (f"pod_template.spec.{field}", value)
    assert instead in problem.fix
