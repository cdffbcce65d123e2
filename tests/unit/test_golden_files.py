"""Golden files: a difference fails, whatever is set, and a folder without any is an error."""

from __future__ import annotations

import pytest

from tests import golden_files
from tests.golden_files import assert_golden


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(golden_files, "GOLDEN", tmp_path)
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    (tmp_path / "backend").mkdir()
    return tmp_path / "backend"


def test_what_the_file_does_not_hold_fails(folder):
    (folder / "job.yaml").write_text("old")

    with pytest.raises(AssertionError):
        assert_golden("backend/job.yaml", "new")

    assert (folder / "job.yaml").read_text() == "old"


def test_a_file_that_is_missing_fails():
    with pytest.raises(FileNotFoundError):
        assert_golden("backend/job.yaml", "new")


@pytest.mark.parametrize("before", ["old", None])
def test_an_update_writes_the_file_and_fails_all_the_same(folder, monkeypatch, before):
    file = folder / "job.yaml"
    if before:
        file.write_text(before)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")

    with pytest.raises(AssertionError, match=r"job\.yaml is written; .* run again without UPDATE_GOLDEN"):
        assert_golden("backend/job.yaml", "new")

    assert file.read_text() == "new"
    assert_golden("backend/job.yaml", "new")


def test_a_folder_without_golden_files_is_an_error(folder):
    with pytest.raises(LookupError, match="backend holds no golden file"):
        golden_files.golden_files("backend")
    (folder / "b.yaml").touch()
    (folder / "a.yaml").touch()

    assert [file.name for file in golden_files.golden_files("backend")] == ["a.yaml", "b.yaml"]
