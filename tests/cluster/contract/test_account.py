"""The pods of a job have no token of an account unless the job asks for one."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.job.status import JobPhase

_SNIPPET = 'note("token", str(pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()))'


@pytest.mark.parametrize(("template", "mounted"), [({}, "False"), ({"automountServiceAccountToken": True}, "True")])
async def test_a_pod_has_a_token_only_where_it_is_asked_for(contract, template, mounted):
    job = contract.case.job(_SNIPPET, nodes=1, pod_spec=template)

    _, status = await contract.run(job)

    assert status.phase is JobPhase.SUCCEEDED, status
    assert contract.noted("token") == [mounted]
