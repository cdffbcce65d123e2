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
    """The most characters of the job's name, so that the longest of its tools' Services still has a name.

    :param job: the job.
    """
    return _SERVICE_NAME_LENGTH - max((len(_name("", tool)) for tool in job.spec.tools), default=0)


def with_addresses(meta: Meta, job: JobPlan, namespace: str) -> Meta:
    """What is written on a job's objects, and where its tools are reached.

    :param meta: what is written on them anyway.
    :param job: the job.
    :param namespace: where it will be.
    """
    if not job.spec.tools:
        return meta
    urls = {
        name: url_of(filled(tool, meta.name, namespace), f"{_name(meta.name, name)}.{namespace}.svc")
        for name, tool in job.spec.tools.items()
    }
    return replace(meta, annotations={**meta.annotations, TOOLS: json.dumps(urls)})


def with_tools(rendered: Rendered, job: JobPlan, meta: Meta, namespace: str, pod_labels: Mapping[str, str]) -> Rendered:
    """The objects of a job, and those of its tools.

    :param rendered: what the job's kind has rendered.
    :param job: the job.
    :param meta: what is written on its objects.
    :param namespace: where it will be.
    :param pod_labels: of the pod that the tools run in, and of no other one.
    """
    objects: list[Manifest] = []
    for name, tool in job.spec.tools.items():
        objects.append(_service(name, tool, meta, pod_labels))
        if tool.access == "ingress":
            objects.append(_ingress(name, filled(tool, meta.name, namespace), meta))
    # Before what trains: a port of the nodes that is taken is then found out first, where this provider decides that.
    return replace(rendered, after=(*objects, *rendered.after))


def with_ports(main: Manifest, created: Iterable[Manifest]) -> dict[str, str]:
    """The annotation of a main object again, with the ports that the cluster has chosen; none where it has chosen none.

    :param main: the job's object.
    :param created: what belongs to it, as the cluster has it.
    """
    urls = written_tools(main)
    for service in created:
        name = (service["metadata"].get("labels") or {}).get(TOOL, "")
        if service["kind"] == SERVICES.kind and PORT in urls.get(name, ""):
            urls[name] = urls[name].replace(PORT, str(service["spec"]["ports"][0]["nodePort"]))
    text = json.dumps(urls)
    return {TOOLS: text} if urls and text != main["metadata"]["annotations"][TOOLS] else {}


def _name(job: str, tool: str) -> str:
    # Controllers, too, call Services by the job's name and a role behind it.
    return f"{job}-tool-{tool}"


def _metadata(name: str, meta: Meta) -> Manifest:
    # Without the labels by which a task finds its jobs: on plain Kubernetes a Service stands for one.
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
