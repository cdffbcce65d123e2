"""Every line of every replica reaches the reader once, whatever becomes of the reader."""

from __future__ import annotations

from collections import Counter

from airflow_trainer_provider.job.follow import end_of
from airflow_trainer_provider.job.status import JobPhase

_EXPECTED = Counter(f"[worker-{index}] line {number}" for index in range(2) for number in range(300))


async def test_every_line_once_and_with_its_replica(contract):
    handle, _ = await contract.run(contract.case.job('for number in range(300): print("line", number)'))

    lines = [line for line in contract.lines if line.startswith("[")]
    assert Counter(lines) == _EXPECTED
    assert [line for line in lines if line.startswith("[worker-1]")] == [
        f"[worker-1] line {number}" for number in range(300)
    ]
    assert contract.lines[-1] == f"Training job {handle.name}: succeeded."


async def test_a_reader_that_stops_goes_on_where_it_was(contract):
    job = contract.case.job(
        """
        for number in range(300):
            if number == 150:
                note("half", me)
                wait_for("go")
            print("line", number)
        """
    )
    handle = await contract.submit(job)
    await contract.until(lambda: len(contract.noted("half")) == 2)
    lines = []

    async with end_of(contract.backend, handle) as ended:
        for wanted in (1, 100, 120):
            logs = contract.backend.logs(handle, "one", ended)
            for _ in range(wanted):
                lines.append(str(await anext(logs)))
            await logs.aclose()
        contract.release("go")
        lines += [str(line) async for line in contract.backend.logs(handle, "one", ended)]

        assert Counter(lines) == _EXPECTED
        assert [line async for line in contract.backend.logs(handle, "one", ended)] == []
        assert Counter([str(line) async for line in contract.backend.logs(handle, "another", ended)]) == _EXPECTED


async def test_a_last_line_without_its_end_is_shown_as_well(contract):
    handle, status = await contract.run(contract.case.job('sys.stdout.write("no end")', nodes=1))

    assert status.phase is JobPhase.SUCCEEDED
    leader = contract.case.leader
    assert f"[{leader}] no end" in contract.lines
    assert (await contract.backend.log_tail(handle, leader, 5))[-1] == "no end"
