"""An Airflow that a command left running ends by itself, and only that one."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.airflow_runner import processes
from tools.airflow_runner.api import TIMEOUT, wait_until
from tools.airflow_runner.code import CHECKOUT, code_digest
from tools.airflow_runner.expiry import expires, start_expiry, stop_expiry
from tools.airflow_runner.record import Record, end_recorded, read_record
from tools.airflow_runner.settings import MARKER

pytestmark = pytest.mark.local

#: Runs the expiry, whose sleep begins with a file in a folder and ends with another one.
SLEEPS_AS_THE_TEST_SAYS = """
import pathlib, runpy, sys, time
folder, pause = pathlib.Path(sys.argv.pop(1)), time.sleep

def sleep(seconds):
    (folder / "asleep").touch()
    while not (folder / "awake").exists():
        pause(0.05)

time.sleep = sleep
runpy.run_module("tools.airflow_runner.expiry", run_name="__main__", alter_sys=True)
"""


class Sleeper:
    """Stands for an instance: a home with a record, and a process that carries the marker."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = home
        self.outside = home.with_name(f"{home.name}-database")
        self.outside.mkdir()
        self.record = Record(str(home), secrets.token_hex(16), "http://127.0.0.1:1", "code", str(self.outside))
        self.record.write()
        self.process = subprocess.Popen(["sleep", "300"], env=os.environ | {MARKER: self.record.marker})

    def wait_for_end(self) -> None:
        self.process.wait(timeout=TIMEOUT)
        wait_until(lambda: not processes.of_instance(self.record.marker) or None, TIMEOUT, lambda: "the expiry stays")


@pytest.fixture
def instances(tmp_path) -> Iterator[list[Sleeper]]:
    both = [Sleeper(tmp_path / "one"), Sleeper(tmp_path / "two")]
    yield both
    for instance in both:
        processes.end_all(instance.record.marker)
        instance.process.wait()


def test_only_the_instance_whose_time_is_up_ends(instances):
    one, two = instances
    start_expiry(one.record, 0.5)

    one.wait_for_end()

    assert read_record(one.home) is None
    assert two.process.poll() is None
    assert read_record(two.home) == two.record


def test_a_time_is_replaced_and_taken_back(instances):
    one, two = instances
    start_expiry(one.record, 300)
    start_expiry(two.record, 300)
    assert expires(one.record)
    start_expiry(one.record, 0.5)
    stop_expiry(two.record)

    one.wait_for_end()

    assert not expires(two.record)
    assert two.process.poll() is None


def test_the_end_of_an_instance_ends_its_expiry(instances):
    one, _ = instances
    start_expiry(one.record, 300)

    assert end_recorded(one.home)

    assert processes.of_instance(one.record.marker) == []


def test_what_ends_an_instance_removes_its_database(instances):
    one, two = instances

    end_recorded(one.home)

    assert (one.outside.exists(), two.outside.exists()) == (False, True)


def test_it_outlives_the_checkout_and_the_home(instances, tmp_path):
    one, _ = instances
    clone = tmp_path / "clone"
    shutil.copytree(CHECKOUT / "tools", clone / "tools")
    command = [sys.executable, "-c", SLEEPS_AS_THE_TEST_SAYS, str(tmp_path), str(one.home), "60"]
    expiry = subprocess.Popen(command, cwd=clone, env=os.environ | {MARKER: one.record.marker})
    wait_until(lambda: (tmp_path / "asleep").exists() or None, TIMEOUT, lambda: f"exit status {expiry.poll()}")
    shutil.rmtree(clone)
    shutil.rmtree(one.home)
    (tmp_path / "awake").touch()

    assert expiry.wait(timeout=TIMEOUT) == 0

    one.wait_for_end()


def test_the_copy_of_a_home_has_no_instance(instances, tmp_path):
    one, _ = instances
    shutil.copytree(one.home, tmp_path / "copy")

    assert not end_recorded(tmp_path / "copy")

    assert one.process.poll() is None


def test_the_digest_follows_what_an_instance_has_loaded(tmp_path):
    module = tmp_path / "airflow_trainer_provider" / "spec" / "job.py"
    module.parent.mkdir(parents=True)
    module.write_text("one")
    before = code_digest(tmp_path)
    (tmp_path / "README.md").write_text("no code")
    assert code_digest(tmp_path) == before
    module.write_text("two")
    assert code_digest(tmp_path) != before
