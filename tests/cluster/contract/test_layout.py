"""Groups and replicas with settings of their own."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.errors import UnsupportedField
from airflow_trainer_provider.job.status import JobPhase

_REPORT = """
task = json.loads(os.environ["TF_CONFIG"])["task"]
note(f"{task['type']}-{task['index']}", " ".join([os.environ["SIZE"], *sys.argv[1:]]))
if task["type"] in ("ps", "evaluator"):
    time.sleep(300)
for name in ("chief-0", "worker-0", "ps-0", "evaluator-0"):
    wait_for(name)
"""
_SLOW = {"index": 0, "args": ["--slow-disk"]}


async def test_parameter_servers_the_evaluator_and_a_replica_that_differs(contract):
    if contract.backend.name not in ("native", "training-operator"):
        pytest.skip("it runs no TensorFlow")
    groups = {"ps": {"env": {"SIZE": "large"}}, "evaluator": {}, "worker": {"overrides": [_SLOW]}}

    def job():
        return contract.case.job(_REPORT, framework="tensorflow", env={"SIZE": "small"}, replicas=groups)

    if contract.backend.name != "native":
        with pytest.raises(UnsupportedField, match="overrides"):
            job()
        groups["worker"] = {}

    handle, status = await contract.run(job())

    # Parameter servers and the evaluator are ended, and do not keep the job from its end.
    assert status.phase is JobPhase.SUCCEEDED, contract.lines
    assert contract.case.processes(handle) == 0
    reported = {name: contract.noted(name) for name in ("chief-0", "worker-0", "ps-0", "evaluator-0")}
    slow = ["--slow-disk"] if contract.backend.name == "native" else []
    assert reported == {
        "chief-0": ["small"],
        "worker-0": ["small", *slow],
        "ps-0": ["large"],
        "evaluator-0": ["small"],
    }
