"""Paths in containers, on nodes, and within volumes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from airflow_trainer_provider.spec.values.base import wrong
from airflow_trainer_provider.spec.values.words import Text

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or below it.

    :param path: an absolute path.
    :param folder: another one, without a slash at its end.
    """
    return path == folder or path.startswith(f"{folder}/")


def _is_plain(path: str) -> bool:
    return not _CONTROL.search(path) and not {"", ".", ".."} & {*path.split("/")}


def _absolute(value: str) -> str:
    path = value.rstrip("/") or "/"
    if not path.startswith("/") or (path != "/" and not _is_plain(path[1:])):
        raise wrong("an absolute path without '.', '..' and empty parts, e.g. /data", "Write the whole path.")
    return path


def _relative(value: str) -> str:
    path = value.rstrip("/")
    if not _is_plain(path):
        raise wrong("a relative path without '.', '..' and empty parts, e.g. sets/small", "Write the path below it.")
    return path


#: The whole path of a file or a folder.
AbsolutePath = Annotated[Text, AfterValidator(_absolute)]
#: A path within a volume or a repository.
RelativePath = Annotated[Text, AfterValidator(_relative)]
