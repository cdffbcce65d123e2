"""The faults that the tests have to notice, as the lists name them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml


class ListError(Exception):
    """A list that does not fit the code, or that is wrong in itself."""


@dataclass(frozen=True)
class Mutation:
    """
    A fault that a careless change could bring.

    :param name: what goes wrong, in the words of a user of the code.
    :param file: the module that is changed, from the checkout's root.
    :param old: the text that is replaced; it occurs once in the module.
    :param new: what replaces it.
    :param tests: the arguments of pytest: files, or single tests in them. One of these tests has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"

    def apply(self, code: str) -> str:
        """
        Return the module with the fault.

        :param code: the module without it.
        :raises ListError: the module has changed since the fault was written down, or the fault is no Python.
        """
        found = code.count(self.old)
        if found != 1:
            raise ListError(f"{self}: `old` occurs {found} times, and not once")
        mutated = code.replace(self.old, self.new)
        try:
            compile(mutated, self.file, "exec")
        except SyntaxError as error:
            raise ListError(f"{self}: {error}") from None
        if mutated == code:
            raise ListError(f"{self}: `new` is the same as `old`")
        return mutated


def read_lists(folder: Path, checkout: Path) -> list[Mutation]:
    """
    Return all mutations, each of which fits the code.

    :param folder: of the lists.
    :param checkout: of the code.
    :raises ListError: a mutation does not fit, or an entry has another form than it should.
    """
    mutations = [_read(entry, path) for path in sorted(folder.glob("*.yaml")) for entry in _entries(path)]
    names = [mutation.name for mutation in mutations]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ListError(f"this name comes twice: {twice[0]}")
    for mutation in mutations:
        path = checkout / mutation.file
        if not path.is_file():
            raise ListError(f"{mutation}: there is no such file")
        mutation.apply(path.read_text())
    return mutations


def _entries(path: Path) -> list[Any]:
    try:
        return yaml.safe_load(path.read_text()) or []
    except yaml.YAMLError as error:
        raise ListError(f"{path.name}: {error}") from None


def _read(entry: Any, path: Path) -> Mutation:
    names = {field.name for field in fields(Mutation)}
    if not isinstance(entry, dict) or set(entry) != names or not all(isinstance(text, str) for text in entry.values()):
        raise ListError(f"{path.name}: an entry has the texts {', '.join(sorted(names))}, and this one is {entry!r}")
    # A text of several lines ends in a line break in YAML.
    texts = {name: text.rstrip("\n") for name, text in entry.items()}
    return Mutation(**texts | {"tests": tuple(texts["tests"].split())})
