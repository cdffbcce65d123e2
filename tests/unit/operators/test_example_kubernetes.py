"""The example for clusters, as far as it can be seen without one; tests/cluster/airflow/test_example.py runs it."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

EXAMPLE = Path(__file__).parents[3] / "dags" / "example_kubernetes.py"
MAIN = {"trainer": "TrainJob", "training-operator": "PyTorchJob", "native": "Service"}


@pytest.mark.parametrize("backend", MAIN)
def test_it_is_a_job_for_each_backend(backend):
    names = runpy.run_path(str(EXAMPLE))
    operator = names["example_kubernetes"]().get_task("train")
    ti = SimpleNamespace(dag_id="example_kubernetes", run_id="r", task_id="train", map_index=-1, try_number=1)

    operator.render_template_fields({"ti": ti, "params": {**names["PARAMS"], "backend": backend}})

    objects = list(yaml.safe_load_all(operator.rendered_job))
    assert MAIN[backend] in [each.get("kind") for each in objects]
    assert {each["metadata"]["namespace"] for each in objects} == {"training"}
    # Jinja has found nothing in it to replace.
    assert operator.command[-1] == names["SCRIPT"].rstrip("\n")
