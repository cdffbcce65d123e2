"""A pod's program: git repositories behind a password, and an object store with what reading a bucket takes of S3.

It needs Python's standard library only. ``FOLDER`` has ``git/`` with bare repositories, and a folder for each bucket.
"""

from __future__ import annotations

import base64
import hashlib
import os
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PORT = 8000
USER, PASSWORD = "robot", "s3cret-of-git"
KEY, SECRET_KEY = "READER", "s3cret-of-the-store"
_BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Handler(BaseHTTPRequestHandler):
    """Answers reads."""

    root = Path(os.environ.get("FOLDER", "/nowhere"))

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path, given = unquote(url.path).strip("/"), self.headers.get("Authorization", "")
        if path.startswith("git/"):
            if given != _BASIC:
                self._send(401, b"", {"WWW-Authenticate": 'Basic realm="git"'})
            else:
                self._file(path)
        elif f"Credential={KEY}/" not in given:
            self._send(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif "/" in path:
            self._file(path)
        else:
            self._list(path, {name: values[0] for name, values in parse_qs(url.query).items()})

    def _file(self, path: str) -> None:
        file = self.root / path
        if file.is_file():
            self._send(200, file.read_bytes())
        else:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, folders, found = query.get("prefix", ""), set(), ""
        for file in sorted((self.root / bucket).rglob("*")):
            key = str(file.relative_to(self.root / bucket))
            below = key.removeprefix(prefix)
            if not file.is_file() or not key.startswith(prefix):
                continue
            if "delimiter" in query and "/" in below:
                folders.add(prefix + below.partition("/")[0] + "/")
                continue
            found += (
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{_tag(file.read_bytes())}</ETag><Size>{file.stat().st_size}</Size></Contents>"
            )
        found += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
        text = f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        self._send(200, text.encode())

    def _send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        size, changed = str(len(body)), formatdate(0, usegmt=True)
        named = {"Content-Length": size, "Last-Modified": changed, "ETag": _tag(body), **(headers or {})}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
