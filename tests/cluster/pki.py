"""Certificates and kubeconfigs of the cluster."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster import network

_SERVER_NAMES = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    f"kubernetes.default.svc.{network.CLUSTER_DOMAIN}",
    "127.0.0.1",
    network.NODE_ADDRESS,
    network.API_SERVICE_ADDRESS,
]


class Authority:
    """A certificate authority that lives as long as the cluster.

    :param folder: where certificates and keys are written.
    :param name: file name, and common name, of the authority's own certificate.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._subject, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._write(name, self._key, builder)

    def issue(
        self, file: str, name: str, *, group: str | None = None, hosts: Sequence[str] = (), key_of: str | None = None
    ) -> None:
        """Write ``<file>.crt`` and ``<file>.key`` for a server or client.

        :param name: user name (common name).
        :param group: Kubernetes group (organization).
        :param hosts: names and addresses of a server.
        :param key_of: of an earlier file, whose key this one has as well; None for a new key.
        """
        key = self._keys[key_of] if key_of else ec.generate_private_key(ec.SECP256R1())
        self._keys[file] = key
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        builder = self._builder(x509.Name(attributes), key)
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(_general_names(hosts)), critical=False)
        self._write(file, key, builder)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # A clock that is a little behind must not find the certificate unborn.
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=30))
        )

    def _write(self, file: str, key: ec.EllipticCurvePrivateKey, builder: x509.CertificateBuilder) -> None:
        certificate = builder.sign(self._key, hashes.SHA256())
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{file}.key").write_bytes(_pem(key))


def write_all(folder: Path) -> None:
    """Make everything that the components and the administrator need, in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Authority(folder, "ca")
    cluster.issue("apiserver", "kube-apiserver", hosts=_SERVER_NAMES)
    cluster.issue("admin", "admin", group="system:masters")
    cluster.issue("controller-manager", "system:kube-controller-manager")
    cluster.issue("scheduler", "system:kube-scheduler")
    cluster.issue("proxy", "system:kube-proxy")
    cluster.issue(
        "kubelet",
        f"system:node:{network.NODE_NAME}",
        group="system:nodes",
        hosts=[network.NODE_NAME, network.NODE_ADDRESS, "127.0.0.1"],
    )
    # How the API server proves itself to the API servers that extend it (Kueue's visibility API).
    Authority(folder, "front-proxy-ca").issue("front-proxy", "front-proxy-client")
    # Service account tokens: RS256 is what every OIDC client of the controllers accepts.
    (folder / "service-account.key").write_bytes(_pem(rsa.generate_private_key(65537, 2048)))
    for user in ("admin", "controller-manager", "scheduler", "proxy", "kubelet"):
        (folder / f"{user}.conf").write_text(kubeconfig(folder, user))


def kubeconfig(folder: Path, user: str) -> str:
    """A kubeconfig that carries its certificates within, so that it can be copied anywhere."""
    cluster = {
        "server": f"https://127.0.0.1:{network.API_PORT}",
        "certificate-authority-data": _data(folder / "ca.crt"),
    }
    credentials = {
        "client-certificate-data": _data(folder / f"{user}.crt"),
        "client-key-data": _data(folder / f"{user}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "trainer-test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "trainer-test", "context": {"cluster": "trainer-test", "user": user}}],
        "current-context": "trainer-test",
    }
    return json.dumps(config, indent=1)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _general_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
