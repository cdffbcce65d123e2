"""A pod that the kubelet evicts stays, and its containers go: their log is no longer available."""

from __future__ import annotations

from tests.cluster.contract.jobs import verdict

_FILLS = """
print("writing", flush=True)
with open("/scratch/all", "wb") as file:
    file.write(bytes(8 << 20))
    file.flush()
    time.sleep(3600)
"""


async def test_the_last_lines_of_an_evicted_pod_are_those_that_were_read(contract):
    volume = {"mount_path": "/scratch", "empty_dir": {"size": "1Mi"}}

    diagnosis = await verdict(contract, contract.case.job(_FILLS, nodes=1, volumes=[volume]))

    assert (diagnosis.reason, diagnosis.kind) == ("Evicted", "disk")
    # A shell may say in addition that it was terminated.
    assert diagnosis.last_log_lines[:1] == ("writing",)
