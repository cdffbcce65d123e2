"""The user's own modules that are copied with a function."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError

_ALLOWED = "names of packages, and of .py files beside the DAG file"


def included_files(include: Any, folder: Path) -> dict[str, str]:
    """Read modules and packages.

    :param include: names of top-level packages and modules that can be imported, and of ``.py`` files.
    :param folder: the folder of the DAG file, to which the names of files are relative.
    :return: path within a folder of modules, e.g. ``models/net.py`` -> source.
    :raises SpecError: a module does not exist, is not Python source, or has a name that cannot be imported.
    """
    if include is None:
        return {}
    if not isinstance(include, Sequence) or isinstance(include, str):
        raise _wrong(include, 'Write a list, e.g. include=["models", "data.py"].')
    files: dict[str, str] = {}
    given: set[str] = set()
    for each in include:
        if not isinstance(each, str):
            raise _wrong(type(each).__name__, "Write the name as text.")
        if (module := each.removesuffix(".py")) in given:
            raise _wrong(each, f"Drop it, or rename one of the two: only one module can be imported as {module}.")
        given.add(module)
        files |= {path: _read(each, source) for path, source in _found(each, folder)}
    return files


def roots(files: Sequence[str]) -> frozenset[str]:
    """The names by which files are imported: top-level modules and packages.

    :param files: paths, as :func:`included_files` returns them.
    """
    return frozenset(path.partition("/")[0].removesuffix(".py") for path in files)


def _found(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    _check_name(name, name.removesuffix(".py"))
    places = [folder / name] if name.endswith(".py") else _places(name, folder)
    if not places:
        raise _wrong(name, f"There is no package and no module {name} that can be imported here; correct the name.")
    for place in places:
        if place.is_dir():
            sources = sorted(path for path in place.rglob("*.py") if "__pycache__" not in path.parts)
            yield from ((f"{name}/{path.relative_to(place).as_posix()}", path) for path in sources)
        elif place.suffix == ".py" and place.is_file():
            yield place.name, place
        else:
            raise _wrong(name, f"{place} is no Python source: correct the name, or put it into the image.")


def _places(name: str, folder: Path) -> list[Path]:
    """The paths of a package or a module: in the folder of the DAG file, or elsewhere on the worker."""
    beside = [folder / name, folder / f"{name}.py"]
    if found := [place for place in beside if place.exists()]:
        return found[:1]
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return [Path(each) for each in spec.submodule_search_locations or filter(None, [spec.origin])]


def _check_name(given: str, module: str) -> None:
    if not (module.isidentifier() and module.isascii()):
        fix = "Name the package at the top, without a dot or a folder; a module's name has ASCII letters only."
        raise _wrong(given, fix)
    if module in sys.stdlib_module_names:
        raise _wrong(given, f"Rename it: it would stand in the place of Python's own module {module}.")


def _read(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise _wrong(name, f"{path} cannot be read as UTF-8: {error}.") from None


def _wrong(value: Any, fix: str) -> SpecError:
    return SpecError([Problem("include", value, _ALLOWED, fix)])
