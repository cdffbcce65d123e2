"""``python -m tools.complexity FOLDER``: fail where a function is too complex to follow.

radon's own command line has no limit at which it fails. xenon has one, but only as a letter: C means 11 to 20.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from complexipy import file_complexity
from radon.visitors import Class, ComplexityVisitor, Function

#: The highest cyclomatic complexity of a function, as radon counts it, with boolean operators and comprehensions.
MOST_CYCLOMATIC = 12
#: The highest cognitive complexity of a function, as complexipy counts it: a branch inside of another one counts more.
MOST_COGNITIVE = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    :param arguments: of the command line; None for those of this process.
    :return: the exit status: 0 where no function is too complex.
    """
    folders = sys.argv[1:] if arguments is None else arguments
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    if not files:
        print(f"There is no Python file in {' '.join(folders) or 'no folder'}.", file=sys.stderr)
        return 1
    findings = [finding for path in files for finding in (*_cyclomatic(path), *_cognitive(path))]
    print("\n".join([*findings, f"{len(findings)} functions in {len(files)} files are too complex."]))
    return 1 if findings else 0


def _cyclomatic(path: Path) -> Iterator[str]:
    visitor = ComplexityVisitor.from_code(path.read_text())
    for function in (*visitor.functions, *_methods(visitor.classes)):
        if function.complexity > MOST_CYCLOMATIC:
            excess = f"cyclomatic complexity {function.complexity} > {MOST_CYCLOMATIC}"
            yield f"{path}:{function.lineno}: {function.fullname}: {excess}"


def _methods(classes: Iterable[Class]) -> Iterator[Function]:
    for each in classes:
        yield from each.methods
        yield from _methods(each.inner_classes)


def _cognitive(path: Path) -> Iterator[str]:
    for function in file_complexity(str(path)).functions:
        if function.complexity > MOST_COGNITIVE:
            excess = f"cognitive complexity {function.complexity} > {MOST_COGNITIVE}"
            yield f"{path}:{function.line_start}: {function.name}: {excess}"


if __name__ == "__main__":
    sys.exit(main())
