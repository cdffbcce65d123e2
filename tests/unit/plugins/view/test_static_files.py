"""The files of the views' pages: complete, small, and without anything that their content security policy forbids."""

from __future__ import annotations

import gzip
import re

import pytest

from airflow_trainer_provider.frameworks import MODULES as FRAMEWORKS
from airflow_trainer_provider.frameworks import get_framework
from tests.unit.named_tests import ROOT

STATIC = ROOT / "airflow_trainer_provider" / "plugins" / "view" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
PAGES = [path for path in FILES if path.suffix == ".html"]
MODULES = [path for path in FILES if path.suffix == ".js"]
#: Where a browser reads other files from: imports of modules, links and scripts of pages, images of styles.
REFERENCE = re.compile(r"""(?:from|import)\s+"([^"]+)"|(?:src|href)="(?!data:)([^"]+)"|url\((?!#)([^)]+)\)""")
#: The namespace of SVG is a name, and no address.
ADDRESS = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.\w")
#: Ways from text to HTML or to code, and attributes that the policy forbids.
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    'setAttribute("style"',
)


def name(path):
    return path.relative_to(STATIC).as_posix()


def references(path):
    """The files that a file names. A page is served beside the folder."""
    folder = STATIC.parent if path in PAGES else path.parent
    return [(folder / next(filter(None, groups))).resolve() for groups in REFERENCE.findall(path.read_text())]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_refers_to_files_that_are_there_and_to_no_other_host(path):
    assert [each for each in references(path) if not each.is_file()] == []
    assert ADDRESS.search(path.read_text()) is None


def test_each_file_is_used():
    used = {each for path in FILES for each in references(path)}

    assert [name(path) for path in FILES if path not in PAGES and path.resolve() not in used] == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_text_never_becomes_markup_or_code(path):
    assert [each for each in FORBIDDEN if each in path.read_text()] == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_page_has_no_inline_script_or_style(path):
    text = path.read_text()

    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", text) == []
    assert "__TRAINER_BASE__" in text


def test_folders_are_small():
    folders = {path.parent for path in FILES}

    assert {name(folder): len(list(folder.iterdir())) for folder in folders if len(list(folder.iterdir())) > 12} == {}


def loaded_with(page):
    """A page, and all files that it leads to."""
    found, left = set(), [page.resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += references(path)
    return found


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_browser_loads_at_most_60_kib(path):
    assert sum(len(gzip.compress(each.read_bytes())) for each in loaded_with(path)) < 60 * 1024


def test_the_pages_call_each_framework_as_its_errors_do():
    (line,) = re.findall(
        r"^export const FRAMEWORKS = \{ (.+) \};$", (STATIC / "task" / "facts.js").read_text(), re.MULTILINE
    )

    assert dict(re.findall(r'(\w+): "([^"]+)"', line)) == {name: get_framework(name).title for name in FRAMEWORKS}
