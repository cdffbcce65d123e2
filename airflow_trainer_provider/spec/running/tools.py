"""Tools of a job: ports of its first replica, such as TensorBoard's or Jupyter's, that people open while it trains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import SpecModel, Whole, all_wrong, wrong
from airflow_trainer_provider.spec.values.labels import Annotations
from airflow_trainer_provider.spec.values.names import ObjectName, is_subdomain
from airflow_trainer_provider.spec.values.words import Text, rendered_hint
from airflow_trainer_provider.text.redaction import secrets_in
from airflow_trainer_provider.text.urls import LONGEST_URL, is_web_url

#: More tools than the pod of one replica serves.
_MOST_TOOLS = 10
#: Placeholders in host, path and url, for the job's name and namespace.
PLACEHOLDERS = ("{job}", "{namespace}")
_PLACES = "{job} and {namespace} stand for the job's name and namespace"
#: A tool's name is also the name of the port of its Service.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,13}[a-z0-9])?")
_NAMES = "1 to 15 lowercase letters, digits and single '-', beginning with a letter, not ending with '-'"
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_PATH = re.compile(r"/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*")
#: Parts that the API server refuses in the path of an Ingress.
_NO_PATH = re.compile(r"//|/\.\.?(/|$)|%2f", re.IGNORECASE)
#: Field -> the kinds of access with which it may be set.
_OF_ACCESS = {
    "node_port": ("node_port",),
    "host": ("node_port", "ingress"),
    "path": ("cluster", "node_port", "ingress"),
    "ingress_class": ("ingress",),
    "tls_secret": ("ingress",),
    "annotations": ("ingress",),
    "url": ("url",),
}


def without_placeholders(text: str, stand_in: str = "x") -> str:
    """Replace the placeholders in a text.

    :param text: a host, a path or a URL of a tool.
    :param stand_in: the replacement for each placeholder.
    """
    for placeholder in PLACEHOLDERS:
        text = text.replace(placeholder, stand_in)
    return text


def _host(value: str) -> str:
    # A job's name and a namespace have at most 63 characters.
    if not is_subdomain(without_placeholders(value, "x" * 63)):
        allowed = f"the name of a host: lowercase letters, digits, '-' and '.'; {_PLACES}"
        raise wrong(allowed, "Write the host alone, without scheme and port.")
    return value


def _path(value: str) -> str:
    text = without_placeholders(value)
    if not _PATH.fullmatch(text) or _NO_PATH.search(text):
        allowed = f"a path that begins with '/', without query, '//' and '..'; {_PLACES}"
        raise wrong(allowed, 'Correct it, e.g. "/" or "/tensorboard".')
    return value


def _url(value: str) -> str:
    text = without_placeholders(value)
    allowed = f"an http or https URL without user and password, of at most {LONGEST_URL} characters; {_PLACES}"
    if "@" in text:
        # Every user who may see the job would see user and password.
        raise wrong(allowed, "Drop user and password: the tool asks for them itself.", value="a URL with '@'")
    if secrets_in(value):
        raise wrong(allowed, "Drop the secret: whoever sees the job would see it.", value="a URL with a secret")
    # The cluster chooses some parts later; until then they are written as <...>, which no user may write.
    if not is_web_url(text) or len(value) > LONGEST_URL:
        raise wrong(allowed, 'Correct it, e.g. "https://tools.example.com/{job}/".')
    return value


class Tool(SpecModel):
    """A port of the job's first replica, and how users reach it. The port's Service is deleted with the job.

    :param port: the port that the tool listens on: in the pod of rank 0, or on this machine with backend ``local``.
    :param access: where the tool is reached: ``cluster``, only inside the cluster; ``node_port``, at a port of each
        node; ``ingress``, at a host and a path of an Ingress controller; ``url``, at an address that another component
        serves, such as a gateway that forwards to the tool's Service.
    :param node_port: the port of the nodes, 30000 to 32767; None selects a free port.
    :param host: the host of an Ingress; or, with ``node_port``, the node or the load balancer in the link.
    :param path: the path of an Ingress, and of the link.
    :param ingress_class: the IngressClass; None uses the cluster's default.
    :param tls_secret: the Secret with the host's certificate; the link then begins with ``https``.
    :param annotations: annotations of the Ingress, with which its controller can restrict the access.
    :param url: the address in the link.
    """

    port: Annotated[Whole, Field(ge=1, le=65535)]
    access: Literal["cluster", "node_port", "ingress", "url"] = "cluster"
    node_port: Annotated[Whole, Field(ge=30000, le=32767)] | None = None
    host: Annotated[Text, AfterValidator(_host)] | None = None
    path: Annotated[Text, AfterValidator(_path)] = "/"
    ingress_class: ObjectName | None = None
    tls_secret: ObjectName | None = None
    annotations: Annotations = Field(default_factory=dict)
    url: Annotated[Text, AfterValidator(_url)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Tool:
        for field, kinds in _OF_ACCESS.items():
            value = getattr(self, field)
            if self.access not in kinds and value != type(self).model_fields[field].get_default(
                call_default_factory=True
            ):
                named = " or ".join(map(repr, kinds))
                shown = "a value" if field == "annotations" else value
                raise wrong(f"no value, unless access is {named}", f"Drop {field}, or set access.", field, shown)
        if self.access == "ingress" and self.host is None:
            raise wrong("the name of a host beside access 'ingress'", "Set host.", "host", None)
        if self.access == "ingress" and _ADDRESS.fullmatch(self.host or ""):
            fix = "Write a name that leads to the Ingress controller."
            raise wrong("a name: an Ingress takes no IP address", fix, "host", self.host)
        if self.access == "url" and self.url is None:
            raise wrong("a URL beside access 'url'", "Set url.", "url", None)
        return self


def _named(value: Any) -> Any:
    if not isinstance(value, Mapping):
        hint = rendered_hint(value) if isinstance(value, str) else None
        fix = hint or 'Write names and tools, e.g. {"tensorboard": {"port": 6006}}.'
        raise wrong("a mapping of names to tools", fix, value=type(value).__name__)
    if len(value) > _MOST_TOOLS:
        raise wrong(f"at most {_MOST_TOOLS} tools", "Name those that people open.", value=f"{len(value)} tools")
    problems = [Problem("", name[:63], f"names of {_NAMES}", "Rename it.") for name in value if not _is_name(name)]
    if problems:
        raise all_wrong(problems)
    return value


def _is_name(name: str) -> bool:
    # The API server refuses the name of a port with two hyphens in a row.
    return _NAME.fullmatch(name) is not None and "--" not in name


def _apart(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    for what, places in (("node_port", dict(_node_ports(tools))), ("path", dict(_routes(tools)))):
        count = Counter(places.values())
        for name, place in places.items():
            if count[place] > 1:
                same = ", ".join(other for other in places if places[other] == place)
                allowed = f"one that no other tool has; these have the same: {same}"
                shown = getattr(tools[name], what)
                raise wrong(allowed, f"Give each another {what}.", f"{name}.{what}", shown)
    return tools


def _node_ports(tools: Mapping[str, Tool]) -> Iterator[tuple[str, int]]:
    return ((name, tool.node_port) for name, tool in tools.items() if tool.node_port is not None)


def _routes(tools: Mapping[str, Tool]) -> Iterator[tuple[str, tuple[str | None, str]]]:
    return ((name, (tool.host, tool.path)) for name, tool in tools.items() if tool.access == "ingress")


#: Tools by their names.
Tools = Annotated[Mapping[str, Tool], BeforeValidator(_named), AfterValidator(_apart)]
