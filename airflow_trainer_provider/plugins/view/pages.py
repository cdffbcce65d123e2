"""The pages and their files. They contain no data: a page requests its data itself."""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path

from fastapi import HTTPException, Request, Response, status

from airflow_trainer_provider.plugins.view.answers import (
    ASK_AGAIN,
    HEADERS,
    PAGE_HEADERS,
    digest,
    is_kept,
    not_modified,
)

#: The placeholder for the page's own address.
_BASE = "__TRAINER_BASE__"
#: The prefix of files in a page, and the prefix of the version that is added to it.
_FILES = '"static/'
_VERSION = "v-"
#: An element in the head of a page: requests need the token that Airflow's own pages keep in ``localStorage.token``.
_HEAD = "<head>"
_NEEDS_TOKEN = f'{_HEAD}\n<meta name="trainer-auth" content="token">'
_PAGE = ".html"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    _PAGE: "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain",
}
_FOR_EVER = "private, max-age=31536000, immutable"


class Pages:
    """The files in a folder, read once.

    :param folder: the folder.
    :param needs_token: whether the pages' requests need a token, since there are no sessions.
    """

    def __init__(self, folder: Path, *, needs_token: bool = False) -> None:
        self._folder = folder
        self._needs_token = needs_token

    @cached_property
    def _files(self) -> dict[str, bytes]:
        found = sorted(path for path in self._folder.rglob("*") if path.is_file() and path.suffix in _TYPES)
        return {path.relative_to(self._folder).as_posix(): path.read_bytes() for path in found}

    @cached_property
    def version(self) -> str:
        """A digest of all files, which changes with the version of the package."""
        return digest(b"".join(name.encode() + b"\0" + content for name, content in self._files.items()))[:16]

    def page(self, name: str, base: str) -> Response:
        """A page.

        :param name: the name of the page's file.
        :param base: the path of the app, as the browser has to request it.
        """
        if name not in self._files:
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"The package has no {name}.")
        text = self._files[name].decode().replace(_BASE, escape(base, quote=True))
        text = text.replace(_FILES, f"{_FILES}{_VERSION}{self.version}/")
        if self._needs_token:
            text = text.replace(_HEAD, _NEEDS_TOKEN, 1)
        return Response(text, media_type=_TYPES[_PAGE], headers={**PAGE_HEADERS, "Cache-Control": ASK_AGAIN})

    def file(self, request: Request, name: str) -> Response:
        """One of the files that pages refer to.

        :param request: the request, which may have the tag of the cached file.
        :param name: the file's path in the folder. With the version as prefix, as in pages, it may be cached for ever.
        """
        first, _, rest = name.partition("/")
        is_this = first == f"{_VERSION}{self.version}"
        name = rest if first.startswith(_VERSION) else name
        content = self._files.get(name)
        # A page has its own route, with a content security policy.
        if content is None or name.endswith(_PAGE):
            raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such file.")
        caching, tag = _FOR_EVER if is_this else ASK_AGAIN, f'"{digest(content)}"'
        if is_kept(request, tag):
            return not_modified(tag, caching)
        headers = {**HEADERS, "ETag": tag, "Cache-Control": caching}
        return Response(content, media_type=_TYPES[Path(name).suffix], headers=headers)
