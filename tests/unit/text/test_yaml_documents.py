"""YAML that kubectl reads as it is meant."""

from __future__ import annotations

import pytest
import yaml

from airflow_trainer_provider.text.yaml_documents import yaml_documents


@pytest.mark.parametrize("text", ["N", "y", "1e3", "-1.5e3", ".5E2", "0o17", "12", "yes", "1.5", "0x1f", "null"])
def test_text_that_looks_like_another_value_is_quoted(text):
    written = yaml_documents([{"name": text}])

    assert written == f"name: '{text}'\n"
    assert yaml.safe_load(written) == {"name": text}


@pytest.mark.parametrize("text", ["4Gi", "500m", "no-number", "e3", "nY", "1e"])
def test_other_text_is_not(text):
    assert yaml_documents([{"name": text}]) == f"name: {text}\n"
