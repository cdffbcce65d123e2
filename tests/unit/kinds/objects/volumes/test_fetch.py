"""The init containers that fetch data: their commands, run with a real git, and what they are given."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from airflow_trainer_provider.kinds.objects.volumes.fetch import ROOT, fetching
from airflow_trainer_provider.spec import Volume
from airflow_trainer_provider.text.redaction import redacted

USER, PASSWORD = "robot", "s3cret-of-git"
GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": f"{what}@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class GitServer(BaseHTTPRequestHandler):
    """git's own server program, behind a password."""

    root: Path

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self, body: bytes) -> None:
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        variables = {
            **GIT,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=True)
        head, _, content = answer.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def git(*words: str | Path, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, env=GIT, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on ``main``, the first of them tagged, and another branch."""
    folder = tmp_path / "served" / "team" / "train.git"
    folder.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main", cwd=folder)
    for text in ("first", "second"):
        (folder / "src").mkdir(exist_ok=True)
        (folder / "src" / "which").write_text(text)
        git("add", "src", cwd=folder)
        git("commit", "--quiet", "-m", text, cwd=folder)
        if text == "first":
            git("tag", "v1", cwd=folder)
            git("branch", "trial", cwd=folder)
    return folder


@pytest.fixture
def url(repository: Path) -> Iterator[str]:
    GitServer.root = repository.parents[1]
    server = ThreadingHTTPServer(("127.0.0.1", 0), GitServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/team/train.git"
    server.shutdown()
    thread.join()
    server.server_close()


def volume(**source: Any) -> Volume:
    return Volume.model_validate({"mount_path": "/data", **source})


def container(of: Volume, *parts: str, **train: Any) -> dict[str, Any]:
    made = fetching(of, parts, train)
    assert made
    return made


def clone(root: Path, url: str, revision: str | None = "main", *parts: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the init container, with the volume and the Secret in a folder of this machine."""
    for name in ("home", "volume", "secret"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "secret" / "username").write_text(USER)
    command = container(volume(git={"repository": url, "revision": revision, "image": "git:1"}), *parts)["command"]
    words = [word.replace(ROOT, str(root)) for word in command]
    return subprocess.run(words, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pod" / "secret").mkdir(parents=True)
    (tmp_path / "pod" / "secret" / "password").write_text(f"{PASSWORD}\n")
    return tmp_path / "pod"


@pytest.mark.parametrize(
    ("revision", "text"), [(None, "second"), ("main", "second"), ("v1", "first"), ("trial", "first")]
)
def test_a_revision_is_cloned_without_its_history(url, root, revision, text):
    result = clone(root, url, revision, "src")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    checkout = root / "volume" / "checkout"
    assert (checkout / "src" / "which").read_text() == text
    assert git("rev-list", "--all", "--count", "HEAD", cwd=checkout) == "1"


@pytest.mark.parametrize("length", [40, 7])
def test_a_commit_is_cloned_by_its_id(url, root, repository, length):
    commit = git("rev-parse", "v1", cwd=repository)

    assert clone(root, url, commit[:length]).returncode == 0
    assert git("rev-parse", "HEAD", cwd=root / "volume" / "checkout") == commit


def test_a_container_that_is_started_again_clones_again(url, root):
    assert clone(root, url, "main").returncode == 0
    assert clone(root, url, "v1").returncode == 0
    assert (root / "volume" / "checkout" / "src" / "which").read_text() == "first"


@pytest.mark.parametrize(
    ("revision", "part", "last"),
    [
        ("mian", "src", "{url} has no branch, tag or commit mian"),
        ("main", "scr/train", "{url} has no scr/train at main"),
    ],
)
def test_the_last_line_names_what_is_not_there(url, root, revision, part, last):
    result = clone(root, url, revision, part)

    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == last.format(url=url)


def test_a_wrong_password_is_named_and_not_shown(url, root):
    (root / "secret" / "password").write_text("another-one")

    result = clone(root, url)

    assert result.returncode != 0
    assert "Authentication failed" in result.stderr
    assert "another-one" not in result.stdout + result.stderr


def test_another_server_does_not_get_the_password(root, url):
    """A redirect, or a submodule, may lead there: git asks for the password of each server."""
    clone(root, url)

    def asked(prompt: str) -> str:
        return subprocess.run([root / "home" / "ask", prompt], capture_output=True, text=True, check=True).stdout

    host = url.removeprefix("http://").partition("/")[0]
    assert asked(f"Username for 'http://{host}': ") == USER
    assert asked(f"Password for 'http://{USER}@{host}': ").strip() == PASSWORD
    for other in ("evil.example", f"{host}0", f"x{host}", f"{host}.evil.example"):
        assert asked(f"Password for 'http://{USER}@{other}': ") == ""


def test_a_secret_without_credentials_is_named(url, root):
    (root / "secret" / "password").unlink()

    result = clone(root, url)

    assert result.stderr == "the Secret has neither ssh-privatekey nor username and password\n"


def test_a_private_key_is_used_with_the_known_hosts_of_the_secret(root, tmp_path):
    """In the place of ssh is a program that writes down its arguments."""
    for name, text in {"ssh-privatekey": "KEY", "known_hosts": "h"}.items():
        (root / "secret" / name).write_text(text)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat {root}/home/key > {tmp_path}/key\nexit 1\n')
    program.chmod(0o755)
    command = container(volume(git={"repository": "git@h.example:team/train.git", "image": "git:1"}))["command"]
    words = [word.replace(ROOT, str(root)) for word in command]
    for name in ("home", "volume"):
        (root / name).mkdir()

    result = subprocess.run(
        words, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, capture_output=True, text=True, check=False
    )

    assert result.returncode != 0
    assert (
        f"UserKnownHostsFile={root}/secret/known_hosts -o StrictHostKeyChecking=yes" in (tmp_path / "words").read_text()
    )
    assert (tmp_path / "key").read_text() == "KEY\n"
    assert (root / "home" / "key").stat().st_mode & 0o777 == 0o600


S3 = {"uri": "s3://sets/small/", "image": "rclone:1"}


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ({}, ["--s3-provider=AWS"]),
        ({"region": "eu-west-1"}, ["--s3-provider=AWS", "--s3-region=eu-west-1"]),
        (
            {"endpoint": "http://minio.example:9000", "secret_name": "store"},
            ["--s3-env-auth", "--s3-provider=Other", "--s3-endpoint=http://minio.example:9000"],
        ),
    ],
    ids=["public", "region", "endpoint"],
)
def test_objects_are_copied_with_rclone(source, options):
    made = container(volume(s3=S3 | source))

    assert made["command"][3:] == ["s3-copy", "s3://sets/small", *options]
    keys = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in made.get("env", ())}
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if source.get("secret_name") else ()
    assert keys == {name: {"name": "store", "key": name} for name in names}


@pytest.mark.parametrize(("objects", "code", "said"), [(["a"], 0, ""), ([], 1, "s3://sets/small has no objects\n")])
def test_a_prefix_without_objects_is_named(root, tmp_path, objects, code, said):
    """In the place of rclone is a program that writes down its arguments, and makes files."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "rclone"
    made = "".join(f"touch {root}/volume/{name}\n" for name in objects)
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\n{made}')
    program.chmod(0o755)
    (root / "volume").mkdir()
    words = [word.replace(ROOT, str(root)) for word in container(volume(s3=S3))["command"]]

    result = subprocess.run(
        words, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (code, said)
    expected = f"copy --config=/dev/null --s3-provider=AWS :s3:sets/small {root}/volume\n"
    assert (tmp_path / "words").read_text() == expected


@pytest.mark.parametrize(
    "source",
    [
        {"git": {"repository": "https://git.example/team/train.git", "secret_name": "git-token", "image": "git:1"}},
        {"s3": S3 | {"endpoint": "http://minio.example:9000", "secret_name": "store-secret"}},
    ],
    ids=["git", "s3"],
)
def test_nothing_of_it_is_taken_for_a_secret(source):
    """A part of it that were masked would be masked in the job's log as well."""
    made = container(volume(**source), "src")

    assert redacted(made) == made
    assert redacted({"volumes": [source]}) == {"volumes": [source]}


def test_it_runs_as_the_trainings_user_and_takes_no_devices():
    resources = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": "2"}}

    made = container(volume(s3=S3), resources=resources, securityContext={"runAsUser": 5000}, image="train:1")

    assert (made["image"], made["securityContext"]) == ("rclone:1", {"runAsUser": 5000})
    assert made["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    assert made["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_other_volumes_need_no_init_container():
    assert fetching(volume(claim="sets"), (), {}) is None


def test_without_known_hosts_the_first_host_key_is_accepted_and_no_private_key_is_left(root, tmp_path, repository):
    """In the place of ssh is a program that writes down its arguments, and runs git's server program here."""
    (root / "secret" / "ssh-privatekey").write_text("KEY")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    source = {"repository": f"git@h.example:{repository}", "image": "git:1"}
    words = [word.replace(ROOT, str(root)) for word in container(volume(git=source), "src")["command"]]
    for name in ("home", "volume"):
        (root / name).mkdir()

    result = subprocess.run(
        words, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")
    options = f"UserKnownHostsFile={root}/home/known_hosts -o StrictHostKeyChecking=accept-new"
    assert options in (tmp_path / "words").read_text()
    assert (root / "volume" / "checkout" / "src" / "which").read_text() == "second"
    assert not (root / "home" / "key").exists()


def test_the_user_of_a_password_alone_is_git(url, root):
    clone(root, url)
    (root / "secret" / "username").unlink()

    host = url.removeprefix("http://").partition("/")[0]
    ask = [root / "home" / "ask", f"Username for 'http://{host}': "]
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "git\n"
