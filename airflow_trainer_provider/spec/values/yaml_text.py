"""Reads YAML as Kubernetes does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml

from airflow_trainer_provider.spec.values.limits import MOST_LEVELS


def read_documents(text: str) -> list[Any]:
    """The documents of a text that are not empty.

    :param text: YAML, or JSON, which is a subset of YAML.
    :raises ValueError: the text is not valid. The message has the position, and no value, since it may be a secret.
    """
    try:
        return [each for each in yaml.load_all(text, _Loader) if each is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        why = getattr(error, "problem", None) or type(error).__name__
        raise ValueError(f"{where}{why}") from None
    except RecursionError:
        raise ValueError("a mapping is merged into itself") from None
    except (ValueError, OverflowError):
        # Python parses numbers of at most 4,300 digits. Its own error would quote the value.
        raise ValueError("a number is too long, or is none") from None


class _Loader(yaml.SafeLoader):
    """Reads a date as text, and refuses a key that occurs twice in a mapping.

    This is not libyaml's loader, which is faster but crashes the process on very deeply nested text.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._levels = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise yaml.composer.ComposerError(None, None, "it is nested too deeply", self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        twice = next((key for key, count in counts.items() if count > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
