"""Calls a function of a DAG file on each rank of a job, and returns the value of rank 0.

This file is copied into the job unchanged. It runs there on Python 3.8 or newer, with the standard library only. Its
folder also has ``call.json``, the source of the function in ``dag/``, the modules of ``include`` in ``include/``, and
the modules of this package that the function may import in ``provider/``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.abc
import importlib.util
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CoroutineType
from typing import Any

#: Exit codes of faults that are not the function's own.
CANNOT_LOAD = 113
CANNOT_RETURN = 114
#: The prefix of the lines that report such a fault, or the checkpoint from which the training resumes.
FAULT = "trainer runner:"
#: The name of the function's module, e.g. in pickles of its classes.
MODULE = "trainer_function"
#: The package of the provider that the function may import, and the folder with its files.
TRAINING = "airflow_trainer_provider.training"
PROVIDER = "provider"
#: The key that distinguishes a function's result from the result of a script.
RETURNED_BY = "trainer_function"
#: The variable with the folder for checkpoints, the file there that names the last finished checkpoint, and the
#: variable that the function gets with that checkpoint's path.
_CHECKPOINTS, _LATEST, _RESUME_FROM = "TRAINER_CHECKPOINT_DIR", "LATEST", "TRAINER_RESUME_FROM"
_RESULT_PATH = "TRAINER_RESULT_PATH"
#: The maximum size of a result that is written as a whole, in bytes, and the variable that sets another maximum.
MESSAGE_BYTES = 4095
_MESSAGE_BYTES = "TRAINER_RESULT_BYTES"
#: The text before the digest in each line of a larger value, and the bytes of the value in each line. A pipe writes at
#: most 4096 bytes in one piece, and a line also has the base64 encoding and the text around it.
FRAME = "trainer result"
FRAME_BYTES = 3000
#: mpirun mixes the output of its ranks, even within lines. So with MPI the lines of a value are printed twice. The
#: pauses before the second time and after each line, in seconds, let the output of other ranks pass.
_MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_AGAIN_PAUSE, _LINE_PAUSE = 0.5, 0.005
_HERE = Path(__file__).absolute().parent
#: Limits of JSON values: the whole numbers that XCom supports, and the depth of nesting.
_LEAST, _MOST, _MOST_LEVELS = -(2**63), 2**64 - 1, 100
_JSON = "None, bool, int, float, str, list and dict with keys of str"


def main() -> int:
    """Call the function of ``call.json``.

    :return: the process's exit code.
    """
    try:
        call = _call()
        sys.argv[:] = [str(_HERE / call["file"])]
        # Called before the training, so that a failing import is a fault of loading.
        _is_first()
    except Exception as error:
        return _fault(CANNOT_LOAD, "cannot load the function", error)
    _let_report()
    _find_checkpoint()
    try:
        function = getattr(importlib.import_module(MODULE), call["function"])
    except (Exception, SystemExit) as error:
        return _not_loaded(error)
    try:
        value = function(*call["args"], **call["kwargs"])
        if isinstance(value, CoroutineType):
            import asyncio

            value = asyncio.run(value)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        return _return(call, error="the function has ended its process with sys.exit(), and returned no value")
    except Exception as error:
        _print(error)
        return 1
    problem = next(not_json(value), None)
    return _return(call, value, problem and f"the function's value has {problem}")


def not_json(value: Any, place: str = "", level: int = 0) -> Iterator[str]:
    """Find parts of a value that JSON does not support.

    :param value: any value.
    :param place: the path of the value, e.g. ``['metrics'][0]``; empty for the whole value.
    :param level: the depth of the value.
    :return: for each such part: the problem, its place, and what is allowed instead.
    """
    what = None
    if level > _MOST_LEVELS:
        what = f"more than {_MOST_LEVELS} levels, or refers to itself,"
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from not_json(item, f"{place}[{at}]", level + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"a key of type {_type(key)} at {place or 'its top'}; allowed are {_JSON}"
                continue
            yield from not_json(item, f"{place}[{key!r}]", level + 1)
    elif not isinstance(value, (bool, type(None))):
        what = _wrong_scalar(value)
    if what:
        yield f"{what} at {place or 'its top'}; allowed are {_JSON}"


def _wrong_scalar(value: Any) -> str | None:
    if isinstance(value, int):
        return None if _LEAST <= value <= _MOST else "a number of more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"the number {value}, which JSON does not have,"
    if not isinstance(value, str):
        return f"a value of type {_type(value)}"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode"
    return None


def _type(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _call() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_HERE / "call.json").read_text(encoding="utf-8"))
    return content


def _find_checkpoint() -> None:
    """Pass the path of the last finished checkpoint to the function, and report it in the log and in the progress.

    A folder that cannot be read is an error: otherwise the training would start again from its first step.
    """
    from airflow_trainer_provider.training.progress import KEY

    if not os.environ.get(_CHECKPOINTS):
        return
    folder = Path(os.environ[_CHECKPOINTS])
    latest = folder / _LATEST
    try:
        path = folder / latest.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return
    if path != folder and _is_there(path):
        os.environ[_RESUME_FROM] = str(path)
        report = json.dumps({KEY: {"resumed_from": {"path": str(path)}}})
        said = f"the training resumes from {path} {report}"
    else:
        said = f"{latest} names no checkpoint that is there: the training begins without one"
    if _is_first():
        print(f"{FAULT} {said}", flush=True)


def _is_there(path: Path) -> bool:
    # Not exists(): since Python 3.14 it returns False for a path that cannot be read.
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _return(call: dict[str, Any], value: Any = None, error: str | None = None) -> int:
    """Write the return value on rank 0; the other ranks write nothing."""
    if not _is_first():
        return 0
    text = _envelope(call, "value", value) if error is None else b""
    if len(text) > call["limit"]:
        error = (
            f"the function's value has {len(text)} bytes as JSON, and at most {call['limit']} are returned: write it "
            "to storage, and return its address"
        )
    try:
        _write(call, text if error is None else _envelope(call, "error", error))
    except (OSError, KeyError) as fault:
        return _fault(CANNOT_RETURN, f"cannot write the function's value to ${_RESULT_PATH}", fault)
    return 0


def _envelope(call: dict[str, Any], key: str, value: Any) -> bytes:
    content = {RETURNED_BY: call["function"], key: value}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _write(call: dict[str, Any], text: bytes) -> None:
    """Write the result. A value that is too large is printed as lines, which the result then identifies."""
    path = Path(os.environ[_RESULT_PATH])
    if len(text) > int(os.environ.get(_MESSAGE_BYTES, MESSAGE_BYTES)):
        digest = hashlib.sha256(text).hexdigest()
        framed = {"sha256": digest, "bytes": len(text), "frames": _print_frames(text, digest)}
        # A reader of an earlier version uses the error instead.
        error = (
            "the value is in the log of rank 0, and what waits for the job has a version that does not read it there"
        )
        text = json.dumps({RETURNED_BY: call["function"], **framed, "error": error}).encode()
    path.write_bytes(text)


def _print_frames(text: bytes, digest: str) -> int:
    """Print a text as lines that contain its digest, and return their number."""
    parts = [base64.b64encode(text[begin : begin + FRAME_BYTES]) for begin in range(0, len(text), FRAME_BYTES)]
    lines = [
        f"{FRAME} {digest[:8]} {number}/{len(parts)} {part.decode()} {binascii.crc32(part):08x}\n".encode()
        for number, part in enumerate(parts, 1)
    ]
    _flush()
    # The function's output may end without a newline.
    lines[0] = b"\n" + lines[0]
    is_mixed = any(name in os.environ for name in _MPI_RANKS)
    for attempt in range(1 + is_mixed):
        time.sleep(attempt * _AGAIN_PAUSE)
        for line in lines:
            _print_line(line)
            time.sleep(is_mixed * _LINE_PAUSE)
    return len(lines)


def _flush() -> None:
    # The function may have replaced sys.stdout with an object that is closed, or cannot be flushed.
    with suppress(Exception):
        sys.stdout.flush()


def _print_line(line: bytes) -> None:
    """Write a line in one piece to the process's own output, since the function may have replaced sys.stdout."""
    while line:
        try:
            line = line[os.write(1, line) :]
        except BlockingIOError:
            time.sleep(_LINE_PAUSE)


def _is_first() -> bool:
    from airflow_trainer_provider.training.progress import is_first

    return is_first()


def _let_report() -> None:
    """Let libraries report progress by Kubeflow Trainer's protocol. On an error the training continues without it."""
    try:
        from airflow_trainer_provider.training import server

        server.start(_HERE)
    except Exception as error:
        print(f"reports by Kubeflow Trainer's protocol are not read: {error}", file=sys.stderr, flush=True)


def _print(error: BaseException) -> None:
    """Print a traceback that begins at the user's code."""
    frame = error.__traceback__
    while frame and _is_ours(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    _flush()
    traceback.print_exception(type(error), error, frame)


def _is_ours(filename: str) -> bool:
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")


def _not_loaded(error: BaseException) -> int:
    """Return the exit code if the function's module fails to load.

    Errors of the code itself, such as an ImportError, recur in each try. Other errors, such as a data store that does
    not answer, may not recur.
    """
    if isinstance(error, SystemExit) and error.code not in (None, 0):
        raise error
    _print(error)
    if not isinstance(error, (ImportError, SyntaxError, NameError, AttributeError, SystemExit)):
        return 1
    return _fault(CANNOT_LOAD, "cannot load the function", error)


def _fault(code: int, what: str, error: BaseException) -> int:
    said = "".join(traceback.format_exception_only(type(error), error)[-1:]).strip()
    print(f"{FAULT} {what}: {said}", file=sys.stderr, flush=True)
    return code


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the function's module by its name, also in processes that unpickle its objects."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname == MODULE:
            return importlib.util.spec_from_file_location(MODULE, _HERE / _call()["file"])
        if fullname == TRAINING:
            # The copied package, even if the image has another version of the provider.
            file = _HERE.joinpath(PROVIDER, *TRAINING.split("."), "__init__.py")
            return importlib.util.spec_from_file_location(TRAINING, file)
        return None


def _install() -> None:
    """Make the function's module, those of ``include`` and the provider's importable, but no other file here."""
    include, provider = _HERE / "include", _HERE / PROVIDER
    sys.path[:] = [each for each in sys.path if Path(each).absolute() not in (_HERE, include, provider)]
    if include.is_dir():
        sys.path.insert(0, str(include))
    # At the end of the path, since the folder has only a part of the package.
    sys.path.append(str(provider))
    sys.meta_path.insert(0, _Finder())


# When multiprocessing spawns a process, it runs this file again under another name.
if __name__ in ("__main__", "__mp_main__"):
    _install()
if __name__ == "__main__":
    code = main()
    # At its exit Python flushes these streams, and a failure changes the exit code: restore the original streams.
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    sys.exit(code)
