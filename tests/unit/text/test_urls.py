"""Which texts are addresses on the web."""

from __future__ import annotations

import pytest

from airflow_trainer_provider.text.urls import LONGEST_URL, is_web_url


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://mlflow.example/#/experiments/1/runs/0a?tab=metrics&x=%20", True),
        ("http://10.0.0.1:5000", True),
        ("http://[::1]:5000/", True),
        ("https://example/users/@me", True),
        ("HTTPS://example/", True),
        ("", False),
        ("example/path", False),
        ("//example/path", False),
        ("https://", False),
        ("https://:80/", False),
        ("https://u:p@example/", False),
        ("https://example:0/", False),
        ("https://example:port/", False),
        ("https://[::1/", False),
        ("javascript:alert(1)//http://x", False),
        ("data:text/html,x", False),
        ("https://example/a b", False),
        ("https://example/<b>", False),
        ("https://example/{name}", False),
        ("https://example/\u202e", False),
        ("https://example/" + "x" * LONGEST_URL, False),
    ],
)
def test_a_web_url(text, is_one):
    assert is_web_url(text) is is_one
