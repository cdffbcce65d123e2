"""The runner: what it does beside calling the function, on each Python that there is."""

from __future__ import annotations

import ast
import json
import select
import subprocess
import sys

import pytest

from airflow_trainer_provider import training
from airflow_trainer_provider.errors import SpecError
from airflow_trainer_provider.functions import runner
from airflow_trainer_provider.functions.calls import modules_of
from airflow_trainer_provider.functions.code import MOST_BYTES, code_of
from airflow_trainer_provider.functions.frames import Framed, Frames
from airflow_trainer_provider.job import result
from airflow_trainer_provider.job.plan import checkpoint
from airflow_trainer_provider.job.progress.report import read_json_line
from airflow_trainer_provider.spec.running import function
from tests.unit.functions.conftest import DECORATORS, python_of

HEAD = "import os\nimport sys\n\ndef train_job(function):\n    return function\n\n"


def _function(body: str) -> str:
    return f"{HEAD}@train_job\ndef f(*args):\n    {body}\n"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return {1, 2}", "the function's value has a value of type set at its top"),
        ("return {'a': [1, object()]}", "a value of type object at ['a'][1]; allowed are None, bool"),
        ("return {'loss': float('nan')}", "the number nan, which JSON does not have, at ['loss']"),
        ("return 'é' * 131072", "the function's value has 262179 bytes as JSON, and at most 262144 are returned"),
        ("a = []; a.append(a); return a", "more than 100 levels, or refers to itself"),
        ("sys.exit()", "the function has ended its process with sys.exit(), and returned no value"),
    ],
)
def test_a_value_that_cannot_be_returned_is_no_failure_of_the_training(body, error, dag_file, run):
    ended = run(dag_file(_function(body)).f)

    assert (ended.code, set(ended.result)) == (0, {"trainer_function", "error"})
    assert error in ended.result["error"]


def _wrapped(value: str) -> bytes:
    return b'{"trainer_function":"f","value":"' + value.encode() + b'"}'


def test_the_largest_value_of_a_termination_message_is_in_it(dag_file, run):
    ended = run(dag_file(_function("return 'x' * 4060")).f)

    assert len(_wrapped("x" * 4060)) == result.RESULT_LIMIT_BYTES
    assert ended.result["value"] == "x" * 4060
    assert ended.out == ""


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return 'x' * 4061", "x" * 4061),
        ("return 'é\U0001f600' * 34000", "é\U0001f600" * 34000),
        # The largest one.
        ("return 'x' * 262109", "x" * 262109),
        ("print('loss 0.1', end=''); return 'x' * 5000", "x" * 5000),
        ("sys.stdout = open(os.devnull, 'w'); return 'x' * 5000", "x" * 5000),
        ("os.set_blocking(1, False); return 'x' * 200000", "x" * 200000),
    ],
)
def test_a_larger_value_goes_out_in_lines(body, value, dag_file, run):
    ended = run(dag_file(_function(body)).f)

    framed = Framed.parse(json.dumps(ended.result).encode())
    said, *lines = ended.out.splitlines(keepends=True)
    # A line that the function has not ended is one of its own.
    assert "trainer result" not in said
    assert (framed.function, framed.size, framed.count) == ("f", len(_wrapped(value)), len(lines))
    # What a pipe takes in one piece, and a container's runtime in one line.
    assert max(map(len, lines)) <= select.PIPE_BUF
    frames = Frames()
    frames.take(ended.out.splitlines())
    assert frames.value(framed) == _wrapped(value)
    assert len(_wrapped(value)) <= result.VALUE_LIMIT_BYTES


@pytest.mark.parametrize("body", ["sys.stdout.close()", "sys.stdout = object()"])
def test_a_value_and_reports_come_out_where_the_function_leaves_no_usable_output(body, dag_file, run):
    top = "from airflow_trainer_provider.training import report\n"
    module = dag_file(f"{top}{_function(f'{body}; report(step=3); return {chr(39)}x{chr(39)} * 5000')}")

    ended = run(module.f)

    assert ended.code == 0, ended.out
    frames = Frames()
    frames.take(ended.out.splitlines())
    assert frames.value(Framed.parse(json.dumps(ended.result).encode())) == _wrapped("x" * 5000)
    assert '{"trainer_progress": {"step": 3}}' in ended.out


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"])
def test_under_mpirun_the_lines_come_twice(variable, dag_file, run):
    ended = run(dag_file(_function("return 'x' * 5000")).f, env={variable: "0"})

    lines = list(filter(None, ended.out.splitlines()))
    assert (len(lines), lines[:2]) == (4, lines[2:])


def test_a_larger_value_is_written_as_it_is_where_there_is_room(dag_file, run):
    module = dag_file(_function("return 'x' * 200000"))

    ended = run(module.f, env={result.RESULT_BYTES_VARIABLE: str(result.VALUE_LIMIT_BYTES)})

    assert (ended.result["value"], ended.out) == ("x" * 200000, "")


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no data')", 1, "no data"),
        ("os._exit(0)", 0, ""),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
        ("raise ValueError('é')", 1, "ValueError: é"),
        ("os.kill(os.getpid(), 9)", -9, ""),
    ],
)
def test_a_function_that_does_not_return_leaves_no_result(body, code, said, dag_file, run):
    ended = run(dag_file(_function(body)).f)

    assert (ended.code, ended.result) == (code, None)
    assert said in ended.out
    assert runner.FAULT not in ended.out


@pytest.mark.parametrize(
    ("env", "returns"),
    [
        ({"RANK": "0"}, True),
        ({"RANK": "1"}, False),
        ({"RANK": "0", "PMI_RANK": "3"}, True),
        ({"PMI_RANK": "3"}, False),
        ({"OTHER_RANK": "3"}, True),
        ({}, True),
    ],
)
def test_rank_0_alone_returns(env, returns, dag_file, run):
    ended = run(dag_file(_function("return 1")).f, env=env)

    assert ended.code == 0
    assert (ended.result is not None) == returns


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("import no_such_module_at_all as m", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("m = eval('no_such_name')", "NameError: name 'no_such_name' is not defined"),
        ("m = eval('1 +')", "SyntaxError: invalid syntax"),
        ("m = sys.no_such", "AttributeError: module 'sys' has no attribute 'no_such'"),
        ("m = sys.exit(0)", "SystemExit: 0"),
    ],
)
def test_code_that_cannot_be_loaded_is_the_runners_own_fault(top, said, dag_file, run):
    module = dag_file(
        _function("return m").replace("import sys\n", f"import sys\nif __name__ == 'trainer_function':\n    {top}\n")
    )

    ended = run(module.f)

    assert (ended.code, ended.result) == (runner.CANNOT_LOAD, None)
    assert ended.out.splitlines()[-1] == f"{runner.FAULT} cannot load the function: {said}"
    assert "runner.py" not in ended.out
    assert 'my_dag.py", line 4, in <module>' in ended.out


@pytest.mark.parametrize(
    ("top", "code", "said"),
    [
        ("raise ConnectionError('it is down')", 1, "ConnectionError: it is down"),
        ("m = {}['key']", 1, "KeyError: 'key'"),
        ("raise MemoryError", 1, "MemoryError"),
        ("sys.exit('no data')", 1, "no data"),
        ("sys.exit(7)", 7, ""),
    ],
)
def test_what_the_code_of_the_top_level_meets_may_be_gone_in_another_try(top, code, said, dag_file, run):
    module = dag_file(
        _function("return m").replace(
            "import sys\n", f"import sys\nm = 1\nif __name__ == 'trainer_function':\n    {top}\n    m = 2\n"
        )
    )

    ended = run(module.f)

    assert (ended.code, ended.result) == (code, None)
    assert ended.out.rstrip("\n").rpartition("\n")[2] == said
    assert runner.FAULT not in ended.out
    assert "runner.py" not in ended.out


@pytest.mark.parametrize(
    ("latest", "rank", "found", "said"),
    [
        (None, "0", None, ""),
        ("step-7", "0", "step-7", "the training resumes from {}/step-7 "),
        ("step-7\n", "0", "step-7", "the training resumes from {}/step-7 "),
        ("step-7", "1", "step-7", ""),
        ("step-9", "0", None, "{}/LATEST names no checkpoint that is there: the training begins without one"),
        ("", "0", None, "{}/LATEST names no checkpoint that is there: the training begins without one"),
    ],
)
def test_the_function_learns_of_the_last_finished_checkpoint(latest, rank, found, said, dag_file, run, tmp_path):
    (tmp_path / "checkpoints" / "step-7").mkdir(parents=True)
    folder = tmp_path / "checkpoints"
    if latest is not None:
        (folder / "LATEST").write_text(latest)
    # Also where the code of the top level looks for it.
    module = dag_file(
        f"{HEAD}FOUND = os.environ.get('TRAINER_RESUME_FROM')\n\n@train_job\ndef f():\n    return FOUND\n"
    )

    ended = run(module.f, env={"TRAINER_CHECKPOINT_DIR": str(folder), "RANK": rank})

    assert ended.code == 0
    assert ended.result is None if rank == "1" else ended.result["value"] == (found and str(folder / found))
    assert ended.out.startswith(f"{runner.FAULT} {said.format(folder)}" if said else "")
    report = read_json_line(ended.out) if ended.out else None
    assert (report and report.resumed_from) == (
        {"step": None, "path": str(folder / "step-7")} if "resumes" in said else None
    )


def test_a_folder_of_checkpoints_that_cannot_be_read_is_no_reason_to_begin_again(dag_file, run, tmp_path):
    (tmp_path / "LATEST").mkdir()

    ended = run(dag_file(_function("return 1")).f, env={"TRAINER_CHECKPOINT_DIR": str(tmp_path)})

    assert (ended.code, ended.result) == (1, None)
    assert "IsADirectoryError" in ended.out


def test_a_call_that_cannot_be_read_is_the_runners_own_fault(dag_file, run, tmp_path):
    ended = run(dag_file(_function("return 1")).f)
    (source,) = tmp_path.glob("*/runner.py")
    (source.parent / "call.json").unlink()

    again = subprocess.run([sys.executable, str(source)], capture_output=True, text=True, check=False)

    assert ended.code == 0
    assert again.returncode == runner.CANNOT_LOAD
    assert f"{runner.FAULT} cannot load the function: FileNotFoundError" in again.stderr


def test_a_value_that_cannot_be_written_is_the_runners_own_fault(dag_file, run, tmp_path):
    ended = run(dag_file(_function("return 1")).f, env={"TRAINER_RESULT_PATH": str(tmp_path / "none" / "x")})

    assert ended.code == runner.CANNOT_RETURN
    assert f"{runner.FAULT} cannot write the function's value" in ended.out


def test_what_lies_beside_the_runner_is_not_imported_by_accident(dag_file, run):
    body = "\n    ".join(
        [
            "import importlib.util",
            "found = [importlib.util.find_spec(name) for name in ('runner', 'call', 'dag')]",
            "return [found, len(sys.argv), os.path.basename(sys.argv[0])]",
        ]
    )

    assert run(dag_file(_function(body)).f).result["value"] == [[None] * 3, 1, "my_dag.py"]


def test_modules_of_ones_own_travel(dag_file, run, tmp_path, monkeypatch):
    package = tmp_path / "dags" / "own_models"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from own_models.deep.net import Net\n")
    (package / "deep" / "net.py").write_text(
        "from .. import sizes\nimport own_data\nSIZE = sizes.SIZE + own_data.ROWS\n"
    )
    (package / "deep" / "net.py").open("a").write("class Net:\n    size = SIZE\n")
    (package / "sizes.py").write_text("SIZE = 2\n")
    (package / "notes.txt").write_text("not sent")
    (tmp_path / "dags" / "own_data.py").write_text("ROWS = 40\n")
    monkeypatch.syspath_prepend(str(tmp_path / "dags"))
    imports = "import own_data\nfrom own_models import Net\n"
    function = dag_file(imports + _function("return [Net.size, os.path.basename(own_data.__file__)]")).f

    ended = run(function, include=["own_models", "own_data.py"])

    assert ended.result["value"] == [42, "own_data.py"], ended.out
    assert {name for name in code_of(function, ["own_models", "own_data"], DECORATORS).files if "/own" in name} == {
        "include/own_models/__init__.py",
        "include/own_models/deep/net.py",
        "include/own_models/sizes.py",
        "include/own_data.py",
    }


@pytest.mark.parametrize(
    ("include", "said"),
    [
        ("models", "Write a list"),
        ([3], "Write the name as text"),
        (["no_such_package"], "no package and no module no_such_package"),
        (["no_such_file.py"], "is no Python source"),
        (["a.b"], "Name the package at the top"),
        (["json"], "Rename it"),
        (["random.py"], "Rename it"),
        (["_cffi_backend"], "is no Python source"),
        (["größe"], "ASCII letters only"),
        (["../own.py"], "without a dot or a folder"),
        (["a/own.py"], "without a dot or a folder"),
        (["own.py", "own"], "only one module can be imported as own"),
    ],
)
def test_what_cannot_be_included(include, said, dag_file, tmp_path):
    module = dag_file(_function("return 1"))
    (tmp_path / "dags" / "a").mkdir()
    for name in ("random.py", "own.py", "../own.py", "a/own.py"):
        (tmp_path / "dags" / name).write_text("x = 1\n")

    with pytest.raises(SpecError, match="include: got") as refused:
        code_of(module.f, include, DECORATORS)

    assert said in str(refused.value)


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_it_runs_on_other_pythons(version, dag_file, run):
    python = python_of(version)
    module = dag_file(_function("return [sys.version_info[:2], args]"))

    small, large = (run(module.f, {"a": "é" * count}, python=python) for count in (1, 5000))

    assert small.code == 0, small.out
    assert small.result["value"] == [[int(part) for part in version.split(".")], [{"a": "é"}]]
    frames = Frames()
    frames.take(large.out.splitlines())
    value = frames.value(Framed.parse(json.dumps(large.result).encode()))
    assert json.loads(value)["value"][1] == [{"a": "é" * 5000}]


def test_what_travels_of_the_package_is_of_the_standard_library_alone_and_of_python_3_8(dag_file):
    files = code_of(dag_file(_function("return 1")).f, None, DECORATORS).files
    ours = {path: source for path, source in files.items() if not path.startswith("dag/")}

    assert "provider/airflow_trainer_provider/training/__init__.py" in ours
    for path, source in ours.items():
        tree = ast.parse(source, feature_version=(3, 8))
        imports = [each for each in ast.walk(tree) if isinstance(each, (ast.Import, ast.ImportFrom))]
        modules = {module for each in imports for _, module in modules_of(each)}
        others = {each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names}
        assert {each for each in others if not f"{each}.".startswith(f"{runner.TRAINING}.")} == set(), path


def test_more_code_than_a_config_map_holds_is_refused_when_the_file_is_parsed(dag_file, tmp_path):
    module = dag_file(_function("return 1"))
    (tmp_path / "dags" / "own_large.py").write_text(f"X = '{'x' * MOST_BYTES}'\n")

    with pytest.raises(SpecError, match=r"the largest file is include/own_large\.py.* into object storage"):
        code_of(module.f, ["own_large.py"], DECORATORS)


def test_the_runner_and_those_who_read_it_agree():
    assert function.MOST_FUNCTION_BYTES == MOST_BYTES
    assert runner.RETURNED_BY == result.RETURNED_BY
    assert runner._RESULT_PATH == result.RESULT_PATH_VARIABLE
    assert training.__name__ == runner.TRAINING
    assert runner._CHECKPOINTS == checkpoint.DIR_VARIABLE
    assert (runner._MESSAGE_BYTES, runner.MESSAGE_BYTES) == (result.RESULT_BYTES_VARIABLE, result.RESULT_LIMIT_BYTES)
