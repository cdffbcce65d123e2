"""A job whose lines, result and error are hostile: `hostile.py NUMBER succeed|fail`. All follow from the number."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

PIECES = [
    "\0",
    "\ud800",
    "\udfff\ud800",
    "\x1b[31m",
    "\r",
    "\x85",
    "\u2028",
    "\ufffe",
    "\U0001f600",
    "{{ 1 / 0 }}",
    "{% raw %}",
    "%(x)s %s %d",
    "{0} {x}",
    "\\u0000 \\ud800 \\",
    "::group::",
    "<script>",
    "'; drop table xcom; --",
    '{"trainer_progress": {"step": 1e999}}',
    "loss=nan",
    "[worker-0]",
    "x" * 5000,
]
#: Keys by which Airflow's serializers take a mapping for another object.
KEYS = ["__classname__", "__type", "__var", "__version__", "__data__", "a\0b", "\ud800", "", "x" * 300]


def text(random_: random.Random) -> str:
    return "".join(random_.choices(PIECES, k=random_.randint(1, 4)))


def value(random_: random.Random, depth: int = 0) -> Any:
    kind = random_.randrange(8 if depth < 4 else 6)
    if kind == 6:
        return {random_.choice(KEYS): value(random_, depth + 1) for _ in range(random_.randint(1, 3))}
    if kind == 7:
        return [value(random_, depth + 1) for _ in range(random_.randint(0, 3))]
    return (text(random_), float("nan"), float("-inf"), 10 ** random_.choice((18, 40, 400)), None, 1e-320)[kind]


def result(random_: random.Random) -> bytes:
    depth = random_.choice((10, 400, 5000))
    return random_.choice(
        [
            json.dumps(value(random_)).encode(),
            json.dumps(value(random_), ensure_ascii=False).encode(errors="surrogatepass"),
            json.dumps({"__classname__": "builtins.tuple", "__version__": 1, "__data__": [1]}).encode(),
            json.dumps({"__type": "dict", "__var": text(random_)}).encode(),
            b"[" * depth + b"]" * depth,
            b'{"a": ' * depth + b"1" + b"}" * depth,
            b"1" * 10_000,
            b'{"a": 1, "a": 2}',
            b"\xff\xfe\x00",
            b"",
            random_.randbytes(200),
        ]
    )


def main(number: int, how: str) -> None:
    random_ = random.Random(number)
    for _ in range(4):
        line = text(random_).replace("\n", "")
        sys.stdout.buffer.write(line.encode(errors="surrogatepass") + random_.choice((b"", b"\xff\x80")) + b"\n")
    print(f"the end of {number}", flush=True)
    if how == "fail":
        raise ValueError(text(random_))
    Path(os.environ["TRAINER_RESULT_PATH"]).write_bytes(result(random_))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
