"""The files of a function's job: the provider's own files, the function's source, its modules, and the call."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from airflow_trainer_provider import training
from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.functions import runner
from airflow_trainer_provider.functions.digest import digest_of
from airflow_trainer_provider.functions.include import included_files, roots
from airflow_trainer_provider.functions.slicing import slice_of
from airflow_trainer_provider.functions.target import target_of

#: The maximum size of a function's files, in bytes. The spec checks it again once the arguments are known.
MOST_BYTES = 900 * 1024
_RUNNER = "runner.py"


@dataclass(frozen=True)
class Code:
    """A function's code.

    :param name: the function's name.
    :param source: the path of the file with the function, within the job.
    :param files: all files except the call: path -> content.
    """

    name: str
    source: str
    files: Mapping[str, str]

    def digest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """A digest that is equal for equivalent calls, regardless of the provider's files and the rest of the DAG file.

        :param args: the call's positional arguments: JSON values.
        :param kwargs: the call's keyword arguments: JSON values.
        """
        files = {path: content for path, content in self.files.items() if path not in _ours()}
        return digest_of(files, {"function": self.name, "args": list(args), "kwargs": dict(kwargs)})

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any], limit: int) -> dict[str, str]:
        """The files of a job that calls the function.

        :param args: the call's positional arguments: JSON values.
        :param kwargs: the call's keyword arguments: JSON values.
        :param limit: the maximum size of the return value, in bytes.
        """
        call = {
            "function": self.name,
            "file": self.source,
            "args": list(args),
            "kwargs": dict(kwargs),
            "limit": limit,
        }
        return {**self.files, "call.json": json.dumps(call, ensure_ascii=False, indent=1)}


def code_of(function: Any, include: Any, decorators: Collection[str]) -> Code:
    """Collect a function and the code that it needs from its DAG file.

    :param function: the decorated function.
    :param include: the user's own modules to copy as well.
    :param decorators: the names of the decorators that run a function as a job.
    :raises SpecError: the function, or a name that it uses, cannot be copied; the error has the remedy.
    """
    target = target_of(function, decorators)
    path = Path(target.file.path)
    modules = included_files(include, path.parent)
    source = f"dag/{path.name}"
    text = slice_of(target, roots(list(modules)))
    files = {**_ours(), source: text, **{f"include/{name}": each for name, each in modules.items()}}
    _check_size(target.name, files)
    return Code(target.name, source, files)


def _check_size(name: str, files: Mapping[str, str]) -> None:
    sizes = {path: len(content.encode()) for path, content in files.items()}
    if sum(sizes.values()) > MOST_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        allowed = f"at most {MOST_BYTES} bytes of code; the largest file is {largest}"
        fix = "Put the code into the image, and data into object storage, whose address is an argument."
        raise SpecError([Problem(name, f"{sum(sizes.values())} bytes", allowed, fix)])


def check_arguments(names: Mapping[str, Any]) -> None:
    """Refuse arguments that JSON does not support.

    :param names: name of a parameter -> its value.
    :raises SpecError: an argument is refused; the error names each of them, and the place of the value in it.
    """
    problems = []
    for name, value in names.items():
        for found in runner.not_json(value):
            what, _, allowed = found.partition("; allowed are ")
            fix = "Pass JSON values: an address, a path or the numbers, and make the object within the function."
            problems.append(Problem(name, what, allowed, fix))
    if problems:
        raise SpecError(problems)


@lru_cache(maxsize=1)
def _ours() -> Mapping[str, str]:
    """The runner, and the modules of this package that a function may import: path -> content."""
    sources = {_RUNNER: Path(runner.__file__)}
    folder = "/".join((runner.PROVIDER, *runner.TRAINING.split(".")))
    sources |= {f"{folder}/{each.name}": each for each in Path(training.__file__).parent.glob("*.py")}
    return {path: source.read_text(encoding="utf-8") for path, source in sorted(sources.items())}
