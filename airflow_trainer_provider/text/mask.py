"""Masks known secrets in any text: the output of a job's replicas, and what is reported about the job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import unquote

from airflow_trainer_provider.text.secret_values import MASK, is_distinct


class Mask:
    """Masks known values. A mask with at least one value is true.

    :param secrets: the values. Those that are too short or too common to be masked in other text are left out.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {part for secret in secrets for part in distinct_parts(secret)}
        # The longest first: one secret can begin with another.
        texts = sorted(known, key=lambda each: (-len(each), each))
        self._bytes = tuple(each.encode("utf-8", "surrogatepass") for each in texts)
        self._pattern = re.compile("|".join(map(re.escape, texts)))

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def concerns(self, block: bytes) -> bool:
        """Whether a block contains one of the values. This is much faster than to search each of its lines.

        :param block: the lines.
        """
        return any(each in block for each in self._bytes)

    def text(self, text: str) -> str:
        """Mask the values in a text.

        :param text: the text.
        """
        return self._pattern.sub(MASK, text) if self._bytes else text


@lru_cache(maxsize=256)
def mask_of(secrets: frozenset[str]) -> Mask:
    """The mask for some secrets. The pods of a job usually share one.

    :param secrets: the secrets.
    """
    return Mask(secrets)


def distinct_parts(secret: str) -> Iterator[str]:
    """The texts by which a secret is found in other text: its lines, as they are and without URL quoting.

    :param secret: the secret; its line breaks can be escaped.
    """
    for line in secret.replace("\\n", "\n").splitlines():
        for form in {line.strip(), unquote(line.strip())}:
            if is_distinct(form):
                yield form
