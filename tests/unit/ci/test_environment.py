"""``tools/environment.sh`` where packages cannot be downloaded, or not at once; its Python is a stand-in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_UV = """\
#!/bin/bash
case $1 in
--version) echo "uv 0.13.9" ;;
venv) mkdir -p .venv/bin && printf '#!/bin/sh\\necho Python 3.11.7\\n' >.venv/bin/python && chmod +x .venv/bin/python ;;
pip) echo try >>tries; [ "$(wc -l <tries)" -ge "$WORKS_AT" ] ;;
esac
"""


@pytest.fixture
def environment(tmp_path):
    """Function (try at which packages can be downloaded) that makes an environment: the exit code, and what it said."""
    for name, text in {
        "bin/python3.11": "#!/bin/sh\necho Python 3.11.7\n",
        "bin/sleep": "#!/bin/sh\n",
        ".bootstrap/bin/uv": _UV,
        "constraints": "",
        "pyproject.toml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def make(works_at):
        argv = ["bash", str(_ROOT / "tools" / "environment.sh"), ".venv", "constraints", "xgboost", "dev"]
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "WORKS_AT": str(works_at)}
        done = subprocess.run(argv, cwd=tmp_path, env=env, check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    return make


def test_a_lost_connection_is_no_reason_to_give_up(environment, tmp_path):
    code, said = environment(3)

    assert (code, said) == (0, "Preparing .venv ...\n" + "Trying again in 10 s.\n" * 2)
    assert list((tmp_path / ".venv" / ".installed").iterdir())


def test_an_index_that_cannot_be_reached_is_named(environment, tmp_path):
    code, said = environment(4)

    assert code == 1
    assert said.endswith(
        "Packages could not be downloaded. Is PyPI reachable? PIP_INDEX_URL and UV_INDEX_URL name another index.\n"
    )
    assert not (tmp_path / ".venv" / ".installed").exists()
