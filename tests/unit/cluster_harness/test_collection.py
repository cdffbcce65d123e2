"""Which cluster tests are taken, and what becomes of them where their cluster is not there, in a pytest process of its
own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.cluster.paths import HERE, ROOT
from tests.cluster.smoke import TESTS

_TESTS = """\
import pytest

@pytest.mark.profile("{mark}")
def test_on_a_cluster(cluster):
    pass

def test_on_the_other(cluster):
    pass
"""
# What `kubectl api-versions` answers on a cluster of the profile mpi.
_KUBECTL = "#!/bin/sh\necho kubeflow.org/v2beta1\n"


@pytest.fixture
def collected(tmp_path):
    """Function (mark, files with tests, what is chosen of them, variables) -> exit code and output of pytest."""
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copy(HERE / "conftest.py", folder)
    (tmp_path / "kubectl").write_text(_KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "kubeconfig").touch()

    def run(mark, files=None, chosen="", **variables):
        for name, tests in (files or {"test_it.py": _TESTS}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(tests.replace("{mark}", mark))
        dropped = ("CI", "PYTEST_ADDOPTS", "TRAINER_TEST_PROFILE")
        env = {name: value for name, value in os.environ.items() if name not in dropped}
        env |= {
            "PATH": f"{tmp_path}:{env['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TRAINER_TEST_KUBECONFIG": str(tmp_path / "kubeconfig"),
            **variables,
        }
        argv = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}"]
        argv += ["-p", "no:cacheprovider", f"{folder}{chosen}"]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=240)
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_misspelt_profile_is_an_error_that_names_the_known_ones(collected):
    code, output = collected("mpj")

    assert code == pytest.ExitCode.USAGE_ERROR
    assert "test_on_a_cluster: there is no profile 'mpj', but kubeflow, mpi, smoke, none" in output


def test_a_misspelt_profile_to_choose_tests_by_is_an_error(collected):
    code, output = collected("mpi", TRAINER_TEST_PROFILE="mpj")

    assert code == pytest.ExitCode.USAGE_ERROR
    assert "TRAINER_TEST_PROFILE: there is no profile 'mpj'" in output


_LIMITS = """\
import pytest

def test_as_it_comes(request):
    assert request.node.get_closest_marker("timeout").args == (900,)

@pytest.mark.timeout(1800)
def test_with_its_own(request):
    assert request.node.get_closest_marker("timeout").args == (1800,)
"""


def test_a_test_has_the_time_of_a_busy_machine_or_its_own(collected):
    code, output = collected("kubeflow", {"test_it.py": _LIMITS})

    assert (code, "2 passed" in output) == (0, True), output


def test_tests_of_another_profile_are_left_out_where_one_is_chosen(collected):
    code, output = collected("mpi", TRAINER_TEST_PROFILE="mpi")

    assert (code, "1 passed, 1 deselected" in output) == (0, True), output


def test_by_hand_tests_of_the_other_profile_are_skipped(collected):
    code, output = collected("mpi")

    assert (code, "1 passed, 1 skipped" in output) == (0, True), output
    assert "needs the profile kubeflow; the cluster has mpi" in output


def test_by_hand_tests_without_a_cluster_are_skipped(collected):
    code, output = collected("mpi", TRAINER_TEST_KUBECONFIG="/nowhere")

    assert (code, "2 skipped" in output) == (0, True), output


def test_a_smoke_test_that_is_gone_is_an_error(collected):
    code, output = collected("mpi", TRAINER_TEST_PROFILE="smoke")

    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"tests/cluster/smoke.py: there is no test {sorted(TESTS)[0]}, " in output


def test_the_smoke_tests_run_on_their_own_profile_and_on_the_one_that_they_are_marked_with(collected):
    chosen, unmarked = _stand_ins(TESTS), {"test_it.py": _TESTS}

    on_smoke = collected("mpi", chosen | unmarked, TRAINER_TEST_PROFILE="smoke")
    on_mpi = collected("mpi", chosen | unmarked, TRAINER_TEST_PROFILE="mpi")

    assert (on_smoke[0], f"{len(TESTS)} passed, 2 deselected" in on_smoke[1]) == (0, True), on_smoke[1]
    assert (on_mpi[0], f"1 passed, {len(TESTS) + 1} deselected" in on_mpi[1]) == (0, True), on_mpi[1]


def test_one_of_the_smoke_tests_runs_by_itself_as_in_its_second_chance(collected):
    code, output = collected("mpi", _stand_ins(TESTS), f"/{TESTS[0]}", TRAINER_TEST_PROFILE="smoke")

    assert (code, "1 passed" in output) == (0, True), output


def _stand_ins(tests):
    """The files of tests with these ids that do nothing."""
    files = {}
    for test in tests:
        path, _, name = test.partition("::")
        function, _, parameter = name.rstrip("]").partition("[")
        files.setdefault(path, {}).setdefault(function, []).extend([parameter] if parameter else [])
    return {path: "import pytest\n" + "".join(_stand_in(*one) for one in each.items()) for path, each in files.items()}


def _stand_in(function, parameters):
    if not parameters:
        return f"def {function}(): pass\n"
    mark = f"@pytest.mark.parametrize('it', {parameters!r})"
    return f"{mark}\ndef {function}(it): pass\n"


@pytest.mark.parametrize("variables", [{"CI": "1"}, {"TRAINER_TEST_PROFILE": "kubeflow"}], ids=["CI", "runner"])
def test_a_wrong_profile_fails_where_the_tests_have_to_run(collected, variables):
    code, output = collected("kubeflow", **variables)

    assert (code, "2 errors" in output) == (1, True), output
    assert "needs the profile kubeflow; the cluster has mpi" in output


@pytest.mark.parametrize("variables", [{"CI": "1"}, {"TRAINER_TEST_PROFILE": "kubeflow"}], ids=["CI", "runner"])
def test_a_cluster_that_does_not_answer_fails_where_the_tests_have_to_run(collected, variables):
    code, output = collected("kubeflow", TRAINER_TEST_KUBECONFIG="/nowhere", **variables)

    assert (code, "2 errors" in output) == (1, True), output
    assert "/nowhere, which does not exist" in output
