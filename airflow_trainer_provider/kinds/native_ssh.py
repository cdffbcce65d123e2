"""What lets one replica start processes on others by ssh, where no controller sees to it.

One key pair for each job serves the client and the servers alike, so that a launcher talks to workers of its own job
only, and no host key goes unchecked. The images bring ssh, sshd and a shell, and run as root, as for MPIJob.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from airflow_trainer_provider.frameworks.base import Address
from airflow_trainer_provider.kinds.base import Manifest

#: Where ssh looks for root's settings, whichever program calls it.
FOLDER = "/root/.ssh"
#: sshd ends at once without a folder /run/sshd that is root's alone, which many images lack. The mount point makes it.
_SERVER_FOLDER = "/run/sshd/trainer"
_VOLUME = "trainer-ssh"
_PORT = 2222
_ENVIRONMENT = "/tmp/trainer-environment"
# Open MPI cuts the domain off the names in its hostfile.
_CLIENT_CONFIG = """\
Host * !*.*
  HostName %h.{domain}
Host *
  Port {port}
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  BatchMode yes
  ConnectTimeout 10
  LogLevel ERROR
"""
# A session of ssh lacks what the image and the Pod set: without it PATH, variables from Secrets and the GPU's libraries
# would be missing in the processes that are started here.
_SERVER_CONFIG = f"""\
Port {_PORT}
HostKey {_SERVER_FOLDER}/key
AuthorizedKeysFile {_SERVER_FOLDER}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PidFile none
LogLevel ERROR
MaxStartups 200
ForceCommand . {_ENVIRONMENT}; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""
#: Notes the container's environment for the sessions, and serves them.
SERVER = (
    "/bin/sh",
    "-c",
    f"umask 077; export -p > {_ENVIRONMENT} && exec /usr/sbin/sshd -D -e -f {_SERVER_FOLDER}/sshd_config",
)
# A rank's result stays on the host that it ran on; the job's is the launcher's. SIGTERM has to reach the launcher.
_LAUNCH = """\
host=$1; shift
"$@" & child=$!
trap 'kill -TERM $child' TERM
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
if [ $code = 0 ] && ! [ -s "$TRAINER_RESULT_PATH" ]; then
  ssh "$host" cat "$TRAINER_RESULT_PATH" > "$TRAINER_RESULT_PATH"
fi
exit $code
"""
_WAIT = """\
for host; do
  until problem=`ssh "$host" true 2>&1`; do echo "Waiting for $host: $problem"; sleep 1; done
done
"""


@dataclass(frozen=True)
class KeyPair:
    """An ssh key pair.

    :param private: in OpenSSH's PEM format.
    :param public: one line: type and key.
    """

    private: str
    public: str


#: Makes the key pair of a job.
MakeKeys = Callable[[], KeyPair]


def new_key_pair() -> KeyPair:
    """Make an Ed25519 key pair."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    return KeyPair(
        private=key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
        public=key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
    )


def secret(name: str, labels: dict[str, str], keys: KeyPair, domain: str) -> Manifest:
    """The Secret that all replicas of a job mount.

    :param name: of the Secret.
    :param labels: of the job.
    :param keys: of this job only.
    :param domain: what the replicas' host names end with.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "type": "Opaque",
        "stringData": {
            "key": keys.private,
            "authorized_keys": f"{keys.public}\n",
            "known_hosts": f"* {keys.public}\n",
            "config": _CLIENT_CONFIG.format(domain=domain, port=_PORT, folder=FOLDER),
            "sshd_config": _SERVER_CONFIG,
        },
    }


def launching(argv: Sequence[str], first: Address) -> list[str]:
    """A launcher's command line that also brings the result of rank 0 to the launcher.

    :param argv: what the launcher runs.
    :param first: where it starts rank 0.
    """
    return ["/bin/sh", "-c", _LAUNCH, "sh", first.host, *argv]


def mount(template: Manifest, name: str) -> None:
    """Give a Pod's first container the job's keys.

    :param template: the Pod's template.
    :param name: of the Secret.
    """
    spec = template["spec"]
    spec["volumes"] = [
        *spec.get("volumes", []),
        {"name": _VOLUME, "secret": {"secretName": name, "defaultMode": 0o400}},
    ]
    container = spec["containers"][0]
    container["volumeMounts"] = [*container.get("volumeMounts", []), *_mounts()]


def wait_for(template: Manifest, hosts: Sequence[Address]) -> None:
    """Let a Pod's containers start only when all hosts answer: no ssh client waits for a name that is not there yet.

    :param template: the Pod's template, with the keys mounted.
    :param hosts: whom to wait for.
    """
    spec = template["spec"]
    container = spec["containers"][0]
    # A quota may ask for resources, and a policy for a security context, of each container.
    same: dict[str, Any] = {
        field: deepcopy(container[field])
        for field in ("image", "imagePullPolicy", "resources", "securityContext")
        if field in container
    }
    waiting = {
        "name": "wait-for-ssh",
        **same,
        "command": ["/bin/sh", "-c", _WAIT, "sh", *(address.host for address in hosts)],
        "volumeMounts": _mounts(),
    }
    spec["initContainers"] = [*spec.get("initContainers", []), waiting]


def _mounts() -> list[Manifest]:
    return [{"name": _VOLUME, "mountPath": path, "readOnly": True} for path in (FOLDER, _SERVER_FOLDER)]
