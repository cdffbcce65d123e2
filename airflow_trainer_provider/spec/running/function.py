"""A Python function that a job runs instead of a command of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from airflow_trainer_provider.spec.values.base import SpecModel, wrong
from airflow_trainer_provider.spec.values.paths import RelativePath
from airflow_trainer_provider.spec.values.words import Text

#: The variable that holds the folder of the function's files.
FUNCTION_VARIABLE = "TRAINER_FUNCTION"
#: What each process of the job runs.
FUNCTION_COMMAND = ("python3", f"$({FUNCTION_VARIABLE})/runner.py")
#: The maximum size of a function's files, in bytes. A ConfigMap holds at most 1 MiB, including its own fields.
MOST_FUNCTION_BYTES = 900 * 1024


class FunctionCode(SpecModel):
    """A function's code and its call, as the decorators generate them.

    :param name: the function's name.
    :param files: path below the function's folder -> content of the file; at most 900 KiB in all.
    :param digest: equal for two functions that do the same although their files differ; if None, the files themselves
        are compared.
    """

    name: Text
    files: Annotated[Mapping[RelativePath, str], Field(min_length=1)]
    digest: Text | None = None

    @field_validator("files")
    @classmethod
    def _fits(cls, files: Mapping[str, str]) -> Any:
        size = sum(len(content.encode()) for content in files.values())
        if size > MOST_FUNCTION_BYTES:
            largest = max(files, key=lambda name: len(files[name]))
            allowed = f"at most {MOST_FUNCTION_BYTES} bytes of code and arguments; the largest file is {largest}"
            fix = "Put the code into the image, and data into object storage, whose address is an argument."
            raise wrong(allowed, fix, value=f"{size} bytes")
        return files
