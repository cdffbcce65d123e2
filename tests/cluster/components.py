"""Command lines and configuration files of the node's components."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster import cgroups, containerd, coscheduler, network
from tests.cluster.build import Binaries
from tests.cluster.debian import Packages
from tests.cluster.paths import STATE, cache_root

PKI = STATE / "pki"
#: Certificates of the administrator; everything else talks to the API server with less.
ADMIN = PKI / "admin.conf"

#: In the order of starting. The second group needs the roles that an API server makes before it is ready.
API = ("containerd", "etcd", "kube-apiserver")
REST = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns")
#: A second scheduler, for pods that are placed together; of the profiles that name it.
COSCHEDULER = coscheduler.NAME


class Components:
    """What to run for each component.

    :param binaries: programs built from Go modules.
    :param packages: programs unpacked from Debian packages.
    """

    def __init__(self, binaries: Binaries, packages: Packages) -> None:
        self._binaries = binaries
        self._packages = packages

    def env(self, name: str) -> dict[str, str]:
        """Environment of a component."""
        # containerd looks for its shim, and the shim for runc, on the path.
        own = [str(self._packages.root / folder) for folder in ("usr/bin", "usr/sbin")]
        # The second scheduler's controller has no flag for it.
        config = {"KUBECONFIG": str(PKI / "scheduler.conf")} if name == COSCHEDULER else {}
        return {"PATH": ":".join([*own, "/usr/sbin", "/usr/bin", "/sbin", "/bin"]), "HOME": str(STATE), **config}

    def argv(self, name: str) -> list[str | Path]:
        """Command line of a component."""
        make = getattr(self, "_" + name.replace("-", "_"))
        program, flags = make()
        return [program, *(f"--{key}={value}" for key, value in flags.items())]

    def write_files(self, pause: str) -> None:
        """Write the configuration files.

        :param pause: name of the image that holds a pod's namespaces.
        """
        (STATE / "containerd.toml").write_text(containerd.config(self._packages, pause))
        (STATE / "cni").mkdir(exist_ok=True)
        (STATE / "cni" / "10-pods.conflist").write_text(json.dumps(_CNI))
        (STATE / "kubelet.json").write_text(json.dumps(_kubelet_configuration()))
        (STATE / "coscheduler.json").write_text(json.dumps(_COSCHEDULER_CONFIGURATION))
        (STATE / "Corefile").write_text(_COREFILE)
        (STATE / "resolv.conf").write_text(f"nameserver {network.NODE_ADDRESS}\n")

    def _etcd(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            # In the node's own /run, which is memory and goes with the node.
            "data-dir": "/run/etcd",
            "listen-client-urls": network.ETCD,
            "advertise-client-urls": network.ETCD,
            "listen-peer-urls": "http://127.0.0.1:2380",
            "unsafe-no-fsync": "true",
        }
        return self._packages.path("etcd-server"), flags

    def _kube_apiserver(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            "etcd-servers": network.ETCD,
            "secure-port": network.API_PORT,
            "advertise-address": network.NODE_ADDRESS,
            "service-cluster-ip-range": network.SERVICE_CIDR,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "client-ca-file": PKI / "ca.crt",
            "tls-cert-file": PKI / "apiserver.crt",
            "tls-private-key-file": PKI / "apiserver.key",
            "kubelet-client-certificate": PKI / "admin.crt",
            "kubelet-client-key": PKI / "admin.key",
            "kubelet-certificate-authority": PKI / "ca.crt",
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": PKI / "service-account.key",
            "service-account-signing-key-file": PKI / "service-account.key",
            "requestheader-client-ca-file": PKI / "front-proxy-ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": PKI / "front-proxy.crt",
            "proxy-client-key-file": PKI / "front-proxy.key",
            # Faults stop and start this server: it must not wait for long-lived watches to end.
            "shutdown-delay-duration": "0s",
            # The first asks etcd how fresh its cache is, which etcd 3.4 does not report: each question costs 3 s. The
            # second changes pods as webhooks do, without a server.
            "feature-gates": "SizeBasedListCostEstimate=false,MutatingAdmissionPolicy=true",
            "runtime-config": "admissionregistration.k8s.io/v1beta1=true",
        }
        return self._binaries.path("kube-apiserver"), flags

    def _kube_controller_manager(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            "kubeconfig": PKI / "controller-manager.conf",
            "root-ca-file": PKI / "ca.crt",
            "service-account-private-key-file": PKI / "service-account.key",
            "cluster-signing-cert-file": PKI / "ca.crt",
            "cluster-signing-key-file": PKI / "ca.key",
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "controllers": "*,-nodeipam",
        }
        return self._binaries.path("kube-controller-manager"), flags

    def _kube_scheduler(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            "kubeconfig": PKI / "scheduler.conf",
            "leader-elect": "false",
        }
        return self._binaries.path("kube-scheduler"), flags

    def _coscheduler(self) -> tuple[Path, Mapping[str, Any]]:
        # Its port would be that of the other scheduler.
        return self._binaries.path(COSCHEDULER), {"config": STATE / "coscheduler.json", "secure-port": 0}

    def _containerd(self) -> tuple[Path, Mapping[str, Any]]:
        (cache_root() / "containerd").mkdir(parents=True, exist_ok=True)
        return self._packages.path("containerd"), {"config": STATE / "containerd.toml"}

    def _kubelet(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            "config": STATE / "kubelet.json",
            "kubeconfig": PKI / "kubelet.conf",
            "hostname-override": network.NODE_NAME,
            "node-ip": network.NODE_ADDRESS,
            "root-dir": STATE / "kubelet",
        }
        return self._binaries.path("kubelet"), flags

    def _kube_proxy(self) -> tuple[Path, Mapping[str, Any]]:
        flags = {
            "kubeconfig": PKI / "proxy.conf",
            "hostname-override": network.NODE_NAME,
            "proxy-mode": "iptables",
            "cluster-cidr": network.POD_CIDR,
            # These limits belong to the whole machine and cannot be set from a network namespace.
            "conntrack-max-per-core": 0,
            "conntrack-min": 0,
        }
        return self._binaries.path("kube-proxy"), flags

    def _coredns(self) -> tuple[Path, Mapping[str, Any]]:
        return self._binaries.path("coredns"), {"conf": STATE / "Corefile"}


_PLUGIN = {"name": "Coscheduling"}
_COSCHEDULER_CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": str(PKI / "scheduler.conf")},
    "profiles": [
        {
            "schedulerName": "scheduler-plugins-scheduler",
            "plugins": {
                "multiPoint": {"enabled": [_PLUGIN]},
                "queueSort": {"enabled": [_PLUGIN], "disabled": [{"name": "*"}]},
            },
            "pluginConfig": [{**_PLUGIN, "args": {"permitWaitingTimeSeconds": 10}}],
        }
    ],
}

# Point to point, not a bridge: every packet of a pod passes the node's routing, so Services work between pods of
# one node without the kernel's bridge filter.
_CNI = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                # In the node's own /run: addresses must not stay taken when the node is gone.
                "dataDir": "/run/cni-addresses",
                "ranges": [[{"subnet": network.POD_CIDR}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

# ttl 1: a pod that replaces another under the same name is found at its own address at once. Names outside of the
# cluster do not exist; a refusal instead would make some resolvers try again for seconds.
_COREFILE = f"""\
{network.CLUSTER_DOMAIN} in-addr.arpa {{
    bind {network.NODE_ADDRESS}
    errors
    kubernetes {network.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {ADMIN}
        pods insecure
        ttl 1
    }}
}}
. {{
    bind {network.NODE_ADDRESS}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def _kubelet_configuration() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(PKI / "kubelet.crt"),
        "tlsPrivateKeyFile": str(PKI / "kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.NAME}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "clusterDNS": [network.NODE_ADDRESS],
        "clusterDomain": network.CLUSTER_DOMAIN,
        "resolvConf": str(STATE / "resolv.conf"),
        "maxPods": 200,
        "serializeImagePulls": False,
        # Controllers write their webhook certificate into a Secret that they mount: how soon they can answer
        # depends on how often the kubelet looks after its volumes.
        "syncFrequency": "2s",
        "nodeStatusUpdateFrequency": "4s",
        # Images are never pulled again: nothing of them may be collected, and a small disk is no reason to evict.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "shutdownGracePeriod": "0s",
    }
