"""The addresses of a job's tools."""

from __future__ import annotations

from airflow_trainer_provider.job.plan.plan import JobPlan, Replica
from airflow_trainer_provider.spec import Tool

#: Placeholders in an address for values that only the cluster knows: the node port, and the address of a node.
PORT, NODE = "<port>", "<node>"


def tool_replica(job: JobPlan) -> Replica:
    """The replica on whose ports the tools listen: the first one that trains, on which mpirun starts rank 0 as well.

    :param job: the job.
    """
    return job.nodes[0] if job.nodes else job.leader


def filled(tool: Tool, job: str, namespace: str) -> Tool:
    """A tool with the placeholders in its fields replaced by the job's name and namespace.

    :param tool: as the spec has it.
    :param job: the job's name.
    :param namespace: of the job.
    """
    texts = {name: getattr(tool, name) for name in ("host", "path", "url")}
    update = {
        name: text.replace("{job}", job).replace("{namespace}", namespace) for name, text in texts.items() if text
    }
    return tool.model_copy(update=update)


def url_of(tool: Tool, host: str) -> str:
    """The address of a tool.

    :param tool: with its placeholders replaced.
    :param host: the host of its Service, or of this machine.
    """
    if tool.access == "ingress":
        base = f"{'https' if tool.tls_secret else 'http'}://{tool.host}"
    elif tool.access == "node_port":
        base = f"http://{tool.host or NODE}:{tool.node_port or PORT}"
    else:
        base = f"http://{host}:{tool.port}"
    return tool.url or f"{base}{tool.path}"


def with_node(url: str, address: str) -> str:
    """An address with a node of the cluster in it.

    :param url: from :func:`url_of`.
    :param address: the address of any node: each node forwards its ports to the pod.
    """
    return url.replace(NODE, f"[{address}]" if ":" in address else address)


def is_whole(url: str) -> bool:
    """Whether an address can be opened as it is.

    :param url: from :func:`url_of`, possibly with values that the cluster has provided since.
    """
    return NODE not in url and PORT not in url
