"""The directive ``layers``: draws a package's layers as an SVG, from a few lines of text.

Each unindented line of the directive's body is a layer, from the top down. The lines below it are its packages, and
those below a package its sub-packages, indented by two spaces a level, each as ``name: description``. A package that
does not exist, or that is missing in the text, is an error: the picture cannot fall behind the source.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_WIDTH = 760
_GAP = 10
_PAD = 12
_LINE = 15
_TITLE = 16
#: Width of a character of a description and of a name, as wide as common fonts are.
_CHARACTER = 6.3
_NAME_CHARACTER = 8.0


@dataclass
class Box:
    """A layer, a package or a sub-package, with what it holds."""

    name: str
    text: str = ""
    boxes: list[Box] = field(default_factory=list)


def parse(lines: list[str]) -> list[Box]:
    """Read the directive's body into layers."""
    root = Box("")
    path = [root]
    for line in filter(str.strip, lines):
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, text = line.strip().partition(": ") if depth else (line.strip(), "", "")
        if depth + 1 > len(path) or depth > 2:
            raise ValueError(f"indented too far: {line!r}")
        box = Box(name, text)
        path[depth].boxes.append(box)
        path[depth + 1 :] = [box]
    return root.boxes


def differences(layers: list[Box], root: Path) -> list[str]:
    """What the text and the folders of a package do not agree on, and what the text names twice."""
    packages = [box for layer in layers for box in layer.boxes]
    names = [box.name for box in packages]
    found = [f"{name} is named twice in the text" for name in sorted(set(names)) if names.count(name) > 1]
    found += _differences(packages, root)
    for layer in layers:
        for box in layer.boxes:
            if box.boxes:
                found += _differences(box.boxes, root / box.name)
    return found


def _differences(boxes: list[Box], folder: Path) -> list[str]:
    there = {path.parent.name for path in folder.glob("*/__init__.py")}
    named = {box.name for box in boxes}
    modules = {path.stem for path in folder.glob("*.py")}
    return [f"{folder.name}/{name} is missing in the text" for name in sorted(there - named)] + [
        f"{folder.name}/{name} does not exist" for name in sorted(named - there - modules)
    ]


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(1, int((width - 2 * _PAD) / _CHARACTER)), break_long_words=False)


def _widths(boxes: list[Box], width: float) -> list[float]:
    """Shares of a row: a package with sub-packages gets more."""
    weights = [1 + len(box.boxes) / 2 for box in boxes]
    room = width - _GAP * (len(boxes) - 1)
    return [room * weight / sum(weights) for weight in weights]


def _grid(box: Box, width: float) -> tuple[list[list[Box]], float]:
    """The sub-packages of a package in rows, as many side by side as there is room for, and the width of each."""
    room = width - 2 * _PAD + _GAP
    columns = max(1, int(room // (145 + _GAP)))
    columns = -(-len(box.boxes) // -(-len(box.boxes) // columns)) if box.boxes else 1
    rows = [box.boxes[start : start + columns] for start in range(0, len(box.boxes), columns)]
    return rows, room / columns - _GAP


def _height(box: Box, width: float) -> float:
    height = _PAD + _TITLE + _LINE * len(_wrapped(box.text, width)) + _PAD / 2
    rows, inner = _grid(box, width)
    for row in rows:
        height += max(_height(each, inner) for each in row) + _GAP
    return height


def _draw(box: Box, x: float, y: float, width: float, height: float, depth: int) -> list[str]:
    rect = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    parts = [f'<rect class="layers-box{depth}" {rect} rx="5"/>']
    parts.append(f'<text class="layers-name" x="{x + _PAD:.1f}" y="{y + _PAD + 10:.1f}">{escape(box.name)}</text>')
    line = y + _PAD + _TITLE
    for text in _wrapped(box.text, width):
        line += _LINE
        parts.append(f'<text class="layers-text" x="{x + _PAD:.1f}" y="{line - 4:.1f}">{escape(text)}</text>')
    line += _PAD / 2
    rows, inner = _grid(box, width)
    for row in rows:
        tallest = max(_height(each, inner) for each in row)
        for index, each in enumerate(row):
            parts += _draw(each, x + _PAD + index * (inner + _GAP), line, inner, tallest, depth + 1)
        line += tallest + _GAP
    return parts


def draw(layers: list[Box], label: str) -> str:
    """The layers as SVG, with classes that ``_static/site.css`` colours.

    :param label: what the picture shows, for those who do not see it.
    """
    parts: list[str] = []
    y = 0.0
    for number, layer in enumerate(layers):
        if number:
            middle = _WIDTH / 2
            parts.append(f'<path class="layers-arrow" d="M{middle} {y + 3:.1f} v12 m-5 -6 l5 6 l5 -6"/>')
            y += 18
        parts.append(f'<text class="layers-layer" x="0" y="{y + 12:.1f}">{escape(layer.name)}</text>')
        y += 20
        widths = _widths(layer.boxes, _WIDTH)
        tallest = max(_height(box, width) for box, width in zip(layer.boxes, widths, strict=True))
        x = 0.0
        for box, width in zip(layer.boxes, widths, strict=True):
            parts += _draw(box, x, y, width, tallest, 0)
            x += width + _GAP
        y += tallest
    view = f'viewBox="-1 -1 {_WIDTH + 2} {y + 2:.0f}"'
    return f'<svg class="layers" role="img" {view} aria-label="{escape(label)}">{"".join(parts)}</svg>'


class Layers(SphinxDirective):
    """Argument: the package's folder, relative to the docs. Body: the layers."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw the body."""
        root = (Path(self.env.srcdir) / self.arguments[0]).resolve()
        try:
            layers = parse(list(self.content))
        except ValueError as error:
            raise self.error(str(error)) from error
        if wrong := differences(layers, root):
            raise self.error("; ".join(wrong))
        label = f"Layers of {root.name}, from the top: " + "; ".join(
            f"{layer.name}: " + ", ".join(box.name for box in layer.boxes) for layer in layers
        )
        return [nodes.raw("", draw(layers, label), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("layers", Layers)
    return {"parallel_read_safe": True}
