"""All that travels with a function, as files: what is ours, the source of the function, modules, and the call."""

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

#: The most bytes of a function's files; the spec refuses more once the arguments are known.
MOST_BYTES = 900 * 1024
_RUNNER = "runner.py"


@dataclass(frozen=True)
class Code:
    """A function's code.

    :param name: of the function.
    :param source: the file that holds it, within the job.
    :param files: all files but the call: path -> content.
    """

    name: str
    source: str
    files: Mapping[str, str]

    def digest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The same for calls that do the same: whatever our own files, and the rest of the DAG file, look like.

        :param args: of the call, JSON values.
        :param kwargs: of the call, likewise.
        """
        files = {path: content for path, content in self.files.items() if path not in _ours()}
        return digest_of(files, {"function": self.name, "args": list(args), "kwargs": dict(kwargs)})

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any], limit: int) -> dict[str, str]:
        """The files of a job that calls the function.

        :param args: of the call, JSON values.
        :param kwargs: of the call, likewise.
        :param limit: the most bytes that it may return.
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
    """Take from a DAG file what a function needs.

    :param function: as the decorator is given it.
    :param include: modules of one's own that travel as well.
    :param decorators: names of those that make a function a job.
    :raises SpecError: the function, or something that it uses, cannot travel; names it, and the way out.
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
    """Refuse arguments that JSON does not have.

    :param names: parameter -> its value.
    :raises SpecError: naming each of them, and where in it the value is.
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
    """The runner, and what of this package a function may import: path -> content."""
    sources = {_RUNNER: Path(runner.__file__)}
    folder = "/".join((runner.PROVIDER, *runner.TRAINING.split(".")))
    sources |= {f"{folder}/{each.name}": each for each in Path(training.__file__).parent.glob("*.py")}
    return {path: source.read_text(encoding="utf-8") for path, source in sorted(sources.items())}
