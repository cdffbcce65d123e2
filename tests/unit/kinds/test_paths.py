"""No name leads to another path of the API."""

from __future__ import annotations

import pytest
from yarl import URL

from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.kinds.base import JOBS, SERVICES
from airflow_trainer_provider.kinds.trainer.training_runtime import CLUSTER_TRAINING_RUNTIMES

HOSTILE = ["a/b", "../kube-system", "a/secrets/b?x=", "a#b", "a%2fb", "a b", "..a", "x/../../../../apis/apps/v1"]


@pytest.mark.parametrize("name", HOSTILE)
def test_each_name_is_one_segment(name):
    for path, place in (
        (SERVICES.path(name, "job"), 4),
        (JOBS.path("team", name), 7),
        (CLUSTER_TRAINING_RUNTIMES.cluster_path(name), 5),
    ):
        url = URL(f"https://cluster{path}", encoded=True)

        assert url.parts[place] == name
        assert (url.query_string, url.fragment) == ("", "")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_no_segment_is_refused(name):
    with pytest.raises(SpecError):
        SERVICES.path(name, "job")
    if name:
        with pytest.raises(SpecError):
            SERVICES.path("team", name)


def test_paths_of_right_names():
    assert SERVICES.path("team", "a.b") == "/api/v1/namespaces/team/services/a.b"
    assert JOBS.path("team") == "/apis/batch/v1/namespaces/team/jobs"
