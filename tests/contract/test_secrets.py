"""The secrets in the input of a job are masked in its output."""

from __future__ import annotations

import json

from airflow_trainer_provider.frameworks import get_framework
from airflow_trainer_provider.job.result import summarize
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.job.verdict import verdict

#: Neither has a well-known form.
PASSWORD, OPTION = "hunter2-of-the-database", "hunter2-as-an-option"
_GIVEN = {
    "env": {"DB_PASSWORD": PASSWORD, "PLAIN": "plain-7"},
    "args": ["--token", OPTION, f"--url=http://u:{PASSWORD}@h"],
}


async def test_lines_and_the_result_show_no_secret(contract):
    snippet = """
        print(os.environ["DB_PASSWORD"], os.environ["PLAIN"], *sys.argv[1:])
        result = {"url": f"postgres://u:{os.environ['DB_PASSWORD']}@db", "plain": os.environ["PLAIN"]}
        pathlib.Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))
    """
    handle, status = await contract.run(contract.case.job(snippet, nodes=1, **_GIVEN))

    assert status.phase is JobPhase.SUCCEEDED
    leader = contract.case.leader
    assert f"[{leader}] *** plain-7 --token *** --url=http://u:***@h" in contract.lines
    summary = summarize(handle, status, await contract.backend.result(handle))
    assert summary["result"] == {"url": "postgres://u:***@db", "plain": "plain-7"}
    assert not _shown_in(contract.lines, summary)


async def test_a_failure_shows_no_secret(contract):
    snippet = "raise ValueError(f\"cannot log in with {os.environ['DB_PASSWORD']}\")"
    handle, status = await contract.run(contract.case.job(snippet, nodes=1, **_GIVEN))

    failure = await verdict(contract.backend, handle, get_framework(handle.framework), status)

    assert failure.traceback[-1] == "ValueError: cannot log in with ***"
    assert "cannot log in with ***" in failure.message
    assert not _shown_in(contract.lines, failure.to_xcom(), status.model_dump(mode="json"), failure.text())


def _shown_in(*outputs):
    text = json.dumps(outputs)
    return [secret for secret in (PASSWORD, OPTION) if secret in text]
