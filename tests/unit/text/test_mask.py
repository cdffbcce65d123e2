"""How a job's own secrets are masked in any text."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_trainer_provider.job.diagnosis.readable import readable
from airflow_trainer_provider.job.result import RESULT_LIMIT_BYTES, masked_result
from airflow_trainer_provider.job.status import JobPhase, JobStatus, ReplicaStatus
from airflow_trainer_provider.text.mask import Mask

SECRET = "hunter2-very-secret"


def test_a_secret_is_masked_wherever_it_occurs():
    mask = Mask({SECRET})

    assert mask
    assert mask.concerns(f"a {SECRET} b".encode())
    assert not mask.concerns(b"nothing")
    assert mask.text(f"a {SECRET}, {SECRET}!") == "a ***, ***!"


def test_a_secret_that_begins_with_another_one_is_masked_as_a_whole():
    assert Mask({"hunter2", "hunter2-and-more"}).text("hunter2-and-more hunter2") == "*** ***"


@pytest.mark.parametrize(
    "secret", ["", "abc12", "changeme", "training", "true", "12345678", "$(TOKEN)", "/run/secrets/a"]
)
def test_a_short_or_common_secret_is_not_masked_in_other_text(secret):
    mask = Mask({secret})

    assert not mask
    assert mask.text(f"the {secret} of it") == f"the {secret} of it"


def test_each_line_of_a_secret_is_masked_by_itself():
    mask = Mask({"MIIEvQIBADANBgkq1\nhkiG9w0BAQEFAASC2\n"})

    assert mask.text("line MIIEvQIBADANBgkq1") == "line ***"
    assert mask.text("line hkiG9w0BAQEFAASC2") == "line ***"


def test_the_password_of_a_url_is_also_masked_unquoted():
    assert Mask({"p%40ss%2Fword1"}).text("p@ss/word1 p%40ss%2Fword1") == "*** ***"


def test_a_secret_outside_of_ascii_is_found_in_bytes():
    assert Mask({"pässwörd-1"}).concerns("a pässwörd-1".encode())


def test_only_the_secret_is_masked_in_a_result():
    mask = Mask({SECRET})

    assert masked_result(f'{{"a": "{SECRET}", "b": 1}}'.encode(), mask) == b'{"a": "***", "b": 1}'
    assert masked_result(b'{"a": "\xff"}', mask) == b'{"a": "\xff"}'


def test_a_masked_result_stays_json():
    mask = Mask({'"loss": 0.125', 'pä"ssword-1', "123456789012"})
    content = r"""{"loss": 0.125, "text": "a p\u00e4\"ssword-1\n", "n": [-123456789012, 1E5], "pä\"ssword-1": null}"""

    masked = masked_result(content.encode(), mask).decode()

    assert masked == r"""{"loss": 0.125, "text": "a ***\n", "n": ["-***", 1E5], "***": null}"""
    assert masked_result(rb'{"a": "\ud800 123456789012"}', mask) == b'{"a": "\xed\xa0\x80 ***"}'
    assert masked_result(b"key 123456789012", mask) == b"key ***"


def test_a_result_that_is_too_long_keeps_its_length():
    content = SECRET.encode() * (RESULT_LIMIT_BYTES // len(SECRET) + 1)

    assert masked_result(content, Mask({SECRET})) == content


def test_the_messages_of_a_status_are_cleaned():
    now = datetime.now(timezone.utc)
    log = f"\x1b[31mcannot log in with {SECRET}\x1b[0m\n  token=tok\nhttp://u:{SECRET}@h ghp_0123456789abcdef"
    failed = ReplicaStatus(group="worker", index=0, reason="Error", message=log)
    fine = ReplicaStatus(group="worker", index=1, started_at=now)
    message = f'Pod is invalid: env[0].value: Invalid value: "unknown to the mask", \u202e{SECRET}'
    waits = ReplicaStatus(group="worker", index=2, reason="StartError\x1b[0m", message="exec: train --token tok")
    status = JobStatus(
        phase=JobPhase.FAILED, reason="FailedCreate", message=message, queued_at=now, replicas=(failed, fine, waits)
    )

    found = readable(status, Mask({SECRET}))

    assert found.message == 'Pod is invalid: env[0].value: Invalid value: "***", ***'
    assert found.replicas[0].message == "cannot log in with ***\n  token=tok\nhttp://u:***@h ***"
    assert found.replicas[1] is fine
    assert (found.replicas[2].reason, found.replicas[2].message) == ("StartError", "exec: train --token ***")
