"""What ruff refuses by pyproject.toml: time-outs of asyncio that Python 3.10 lacks, or that lose cancellations."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.named_tests import ROOT

#: The folders whose code ruff looks at.
PLACES = ("airflow_trainer_provider/job", "tests/unit", "tools", "benchmarks")
WAITS = {
    "asyncio.wait_for": "async def wait(work):\n    await {}(work, 1)\n",
    "asyncio.timeout": "async def wait(work):\n    async with {}(1):\n        await work\n",
    "asyncio.timeout_at": "async def wait(work):\n    async with {}(1):\n        await work\n",
}


def refused(code, place):
    """What ruff says of code that calls something banned."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "--output-format", "concise"]
    name = f"{place}/some_module.py"
    ruff = subprocess.run(
        [*command, "--stdin-filename", name, "-"], input=code, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return [line for line in ruff.stdout.splitlines() if "TID251" in line]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("banned", WAITS)
def test_a_timeout_of_asyncio_is_refused_and_the_way_out_named(banned, place):
    module, _, name = banned.rpartition(".")
    code = WAITS[banned]

    for used in (f"import {module}\n{code.format(banned)}", f"from {module} import {name}\n{code.format(name)}"):
        (line,) = refused(used, place)
        assert f"`{banned}` is banned" in line
        assert "use airflow_trainer_provider.timeouts.with_timeout()" in line


def test_our_own_timeout_is_not_refused():
    code = "from airflow_trainer_provider.timeouts import with_timeout\n" + WAITS["asyncio.wait_for"]

    assert refused(code.format("with_timeout"), "airflow_trainer_provider/job") == []
