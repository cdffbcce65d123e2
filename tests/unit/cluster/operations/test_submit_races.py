"""Three tries of a task submit at the same moment, as they do where Airflow has lost workers that live on."""

from __future__ import annotations

import asyncio
import random

import pytest

from airflow_trainer_provider.cluster.backend import ClusterBackend
from airflow_trainer_provider.cluster.state.objects import identity_of, is_being_ended
from airflow_trainer_provider.errors import TrainJobError
from airflow_trainer_provider.frameworks import plan_job
from airflow_trainer_provider.job.identity import Identity
from airflow_trainer_provider.spec import parse_spec
from tests.fakes.kubernetes import NAMESPACE, FakeKubernetes

pytestmark = pytest.mark.timeout(120)
ROUNDS = 40


@pytest.mark.parametrize("backend", ["native", "trainer"])
@pytest.mark.parametrize("same_job", [True, False])
async def test_one_job_is_left_and_it_is_the_latest_trys(backend, same_job):
    chance = random.Random(7)

    def job(try_number):
        image = "same" if same_job else f"of try {try_number}"
        values = {"framework": "jax", "name": "train", "image": image, "command": ["python", "t.py"]}
        return plan_job(parse_spec(values))

    async with FakeKubernetes() as api:
        api.before(".*", "/namespaces/", lambda: asyncio.sleep(chance.random() * 0.03), times=None)
        clusters = [await api.cluster(f"worker-{number}") for number in (1, 2, 3)]

        async def submit(run_id, try_number):
            await asyncio.sleep(chance.random() * 0.06)
            identity = Identity(dag_id="d", run_id=run_id, task_id="t", try_number=try_number, max_tries=2)
            try:
                # Each try has a process, and a client, of its own.
                found = ClusterBackend(backend, clusters[try_number - 1], NAMESPACE)
                return (await found.submit(job(try_number), identity)).handle
            except TrainJobError as error:
                return error

        async def run(run_id):
            return await asyncio.gather(*(submit(run_id, try_number) for try_number in (1, 2, 3)))

        outcomes = await asyncio.gather(*(run(f"run-{number}") for number in range(ROUNDS)))
        plural = {"native": "services", "trainer": "trainjobs"}[backend]
        mains = [main for main in api.objects.find(plural, NAMESPACE) if identity_of(main) and not is_being_ended(main)]

    left = {number: [] for number in range(ROUNDS)}
    for main in mains:
        left[int(identity_of(main).run_id.removeprefix("run-"))].append(main["metadata"]["uid"])
    wrong = {
        number: (uids, outcomes[number])
        for number, uids in left.items()
        if isinstance(outcomes[number][2], TrainJobError) or uids != [outcomes[number][2].uid]
    }
    assert wrong == {}
