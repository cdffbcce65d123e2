"""The Service of each tool of a job, and its Ingress; and their addresses, in an annotation of the main object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.job.plan.tools import PORT, filled, url_of
from airflow_trainer_provider.kinds.base import INGRESSES, SERVICES, Manifest, Meta, Rendered
from airflow_trainer_provider.kinds.objects.labels import JOB, TOOL, TOOLS, written_tools
from airflow_trainer_provider.spec import Tool

_SERVICE_NAME_LENGTH = 63


def name_limit(job: JobPlan) -> int:
    """The maximum length of the job's name, with which the longest Service name of its tools is still valid.

    :param job: the job.
    """
    return _SERVICE_NAME_LENGTH - max((len(_name("", tool)) for tool in job.spec.tools), default=0)


def with_addresses(meta: Meta, job: JobPlan, namespace: str) -> Meta:
    """The metadata of a job's objects, with the addresses of its tools.

    :param meta: the metadata without the addresses.
    :param job: the job.
    :param namespace: the job's namespace.
    """
    if not job.spec.tools:
        return meta
    urls = {
        name: url_of(filled(tool, meta.name, namespace), f"{_name(meta.name, name)}.{namespace}.svc")
        for name, tool in job.spec.tools.items()
    }
    return replace(meta, annotations={**meta.annotations, TOOLS: json.dumps(urls)})


def with_tools(rendered: Rendered, job: JobPlan, meta: Meta, namespace: str, pod_labels: Mapping[str, str]) -> Rendered:
    """The objects of a job, with those of its tools.

    :param rendered: the objects that the job's kind has rendered.
    :param job: the job.
    :param meta: the metadata of its objects.
    :param namespace: the job's namespace.
    :param pod_labels: labels that select the pod that the tools run in, and no other pod.
    """
    objects: list[Manifest] = []
    for name, tool in job.spec.tools.items():
        objects.append(_service(name, tool, meta, pod_labels))
        if tool.access == "ingress":
            objects.append(_ingress(name, filled(tool, meta.name, namespace), meta))
    # Before the objects that train, so that a node port that is already taken is noticed first, where this provider
    # decides the order.
    return replace(rendered, after=(*objects, *rendered.after))


def with_ports(main: Manifest, created: Iterable[Manifest]) -> dict[str, str]:
    """The annotation of a main object with the node ports that the cluster has chosen; empty where it has chosen none.

    :param main: the job's object.
    :param created: the job's other objects, as the cluster has created them.
    """
    urls = written_tools(main)
    for service in created:
        name = (service["metadata"].get("labels") or {}).get(TOOL, "")
        if service["kind"] == SERVICES.kind and PORT in urls.get(name, ""):
            urls[name] = urls[name].replace(PORT, str(service["spec"]["ports"][0]["nodePort"]))
    text = json.dumps(urls)
    return {TOOLS: text} if urls and text != main["metadata"]["annotations"][TOOLS] else {}


def _name(job: str, tool: str) -> str:
    # Controllers also name Services after the job, with a role as suffix.
    return f"{job}-tool-{tool}"


def _metadata(name: str, meta: Meta) -> Manifest:
    # Without the labels by which a task finds its jobs: on plain Kubernetes a Service represents a job.
    return {"name": _name(meta.name, name), "labels": {JOB: meta.name, TOOL: name}}


def _service(name: str, tool: Tool, meta: Meta, pod_labels: Mapping[str, str]) -> Manifest:
    port: Manifest = {"name": name, "port": tool.port, "targetPort": tool.port, "protocol": "TCP"}
    if tool.node_port is not None:
        port["nodePort"] = tool.node_port
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": _metadata(name, meta),
        "spec": {
            "type": "NodePort" if tool.access == "node_port" else "ClusterIP",
            "selector": dict(pod_labels),
            "ports": [port],
        },
    }


def _ingress(name: str, tool: Tool, meta: Meta) -> Manifest:
    backend = {"service": {"name": _name(meta.name, name), "port": {"number": tool.port}}}
    path = {"path": tool.path, "pathType": "Prefix", "backend": backend}
    spec: Manifest = {"rules": [{"host": tool.host, "http": {"paths": [path]}}]}
    if tool.ingress_class:
        spec["ingressClassName"] = tool.ingress_class
    if tool.tls_secret:
        spec["tls"] = [{"hosts": [tool.host], "secretName": tool.tls_secret}]
    metadata = {**_metadata(name, meta), "annotations": dict(tool.annotations)}
    return {"apiVersion": INGRESSES.api_version, "kind": INGRESSES.kind, "metadata": metadata, "spec": spec}
