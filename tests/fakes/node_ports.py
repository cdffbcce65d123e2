"""The ports of the nodes, each of which one Service may have."""

from __future__ import annotations

from tests.fakes.objects import Objects
from tests.fakes.selectors import Manifest, Refused

_FIRST = 31000


def with_node_ports(objects: Objects, service: Manifest) -> None:
    """Give a new Service the ports of the nodes that it asks for, before anything looks whether it exists.

    :raises Refused: another Service, or this one itself, has such a port.
    """
    if (service.get("spec") or {}).get("type") != "NodePort":
        return
    taken = {
        port["nodePort"]
        for each in objects.find("services", None)
        for port in (each.get("spec") or {}).get("ports") or ()
        if "nodePort" in port
    }
    for at, port in enumerate(service["spec"]["ports"]):
        if port.get("nodePort") in taken:
            what = f'Service "{service["metadata"]["name"]}" is invalid: spec.ports[{at}].nodePort: '
            raise Refused(
                422, "Invalid", f"{what}Invalid value: {port['nodePort']}: provided port is already allocated"
            )
        port.setdefault("nodePort", next(each for each in range(_FIRST, 32768) if each not in taken))
        taken.add(port["nodePort"])
