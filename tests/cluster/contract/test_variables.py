"""Variables from different fields of a job refer to each other."""

from __future__ import annotations

from airflow_trainer_provider.job.status import JobPhase


async def test_a_variable_may_refer_to_one_from_a_secret(contract):
    case = contract.case
    case.access.kubectl("create", "secret", "generic", "hub", "--from-literal=token=s3cret", f"-n={case.namespace}")
    job = case.job(
        'note("seen", os.environ["URL"])',
        nodes=1,
        env={"URL": "https://$(TOKEN)@hub"},
        variable={"name": "TOKEN", "secretKeyRef": {"name": "hub", "key": "token"}},
    )

    _, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, status
    assert contract.noted("seen") == ["https://s3cret@hub"]
