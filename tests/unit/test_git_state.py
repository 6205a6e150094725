"""What a result says of the commit it was made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from solarjax.provenance import git_state


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    for name in ("package/module.py", "reports/old.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    git("init", "-q")
    git("add", "-A")
    git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "all")
    return tmp_path


def test_a_committed_tree_is_clean_also_beside_new_reports(checkout: Path) -> None:
    (checkout / "reports" / "old.json").write_text("2")
    (checkout / "reports" / "new.json").write_text("2")
    state = git_state(checkout / "package")
    assert state is not None and not state["dirty"] and len(state["sha"]) == 40


@pytest.mark.parametrize("name", ["package/module.py", "package/new.py", "beside/new.py", "package/reports/new.py"])
def test_code_that_is_not_committed_makes_it_dirty(checkout: Path, name: str) -> None:
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("3")
    state = git_state(checkout / "package")
    assert state is not None and state["dirty"]


def test_outside_a_checkout_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    assert git_state(tmp_path / "package") is None
