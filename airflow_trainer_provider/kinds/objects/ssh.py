"""Lets one replica start processes on the others through ssh, with a key pair of the job.

Each job has one key pair, which the client and the servers share: a launcher reaches only the workers of its own job,
and checks their host key. The key pair is in a Secret, from which each container copies it into memory: ssh and sshd
refuse a private key that others can read, and the files of a mounted Secret never belong to the container's user.

The images contain ssh, sshd and a shell. The container can run as any user that has an entry with a login shell in
/etc/passwd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from airflow_trainer_provider.job.plan.framework import Address, Framework
from airflow_trainer_provider.kinds.base import Manifest, Meta
from airflow_trainer_provider.kinds.objects.labels import PRIVATE_KEY, SSH_SECRET

#: The folder in which ssh looks for root's settings, whichever program calls it.
_HOME = "/root/.ssh"
#: If root runs sshd, it exits at once without a folder /run/sshd that belongs to root alone, which many images lack.
#: This mount point creates the folder.
_KEYS = "/run/sshd/trainer"
#: The folder, in memory, for the files that the container's user writes.
_OWN = "/run/trainer-ssh"
#: All of these folders: nothing else may be mounted there.
PATHS = (_HOME, _KEYS, _OWN)
_VOLUMES = {"keys": "trainer-ssh", "own": "trainer-ssh-own"}
PORT = 2222
#: The ssh client with the job's settings, for programs that can be configured to call it.
CLIENT = f"ssh -F {_KEYS}/config"
# Open MPI cuts the domain off the names in its hostfile.
_CLIENT_CONFIG = f"""\
Host * !*.*
  HostName %h.{{domain}}
Host *
  Port {PORT}
  IdentityFile {_OWN}/key
  IdentitiesOnly yes
  UserKnownHostsFile {_KEYS}/known_hosts
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  LogLevel ERROR
"""
# An ssh session lacks the variables that the image and the Pod set. Without ForceCommand, the processes that it starts
# would miss PATH, variables from Secrets and the GPU's libraries.
_SERVER_CONFIG = f"""\
Port {PORT}
HostKey {_OWN}/key
AuthorizedKeysFile {_KEYS}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PidFile none
LogLevel ERROR
MaxStartups 200
ForceCommand . {_OWN}/environment; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""
_COPY_KEY = f"umask 077; cat {_KEYS}/key > {_OWN}/key || exit 1"
#: Saves the container's environment for the sessions, and runs sshd.
SERVER = (
    "/bin/sh",
    "-c",
    f"{_COPY_KEY}; export -p > {_OWN}/environment && exec /usr/sbin/sshd -D -e -f {_KEYS}/sshd_config",
)
# A rank's result stays on the host that it ran on, but the job's result is read from the launcher's pod. SIGTERM has to
# reach the launcher.
_LAUNCH = f"""\
host=$1; shift
"$@" & child=$!
trap 'kill -TERM $child' TERM
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
if [ $code = 0 ] && ! [ -s "$TRAINER_RESULT_PATH" ]; then
  {CLIENT} "$host" cat "$TRAINER_RESULT_PATH" > "$TRAINER_RESULT_PATH"
fi
exit $code
"""
_WAIT = f"""\
{_COPY_KEY}
for host; do
  until problem=`{CLIENT} "$host" true 2>&1`; do
    case $problem in
      *"No user exists"*) echo "ssh needs the pod's user in /etc/passwd of the image: $problem" >&2; exit 1 ;;
    esac
    echo "Waiting for $host: $problem"; sleep 1
  done
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


def with_key(meta: Meta) -> Meta:
    """The metadata of the main object of a job with a key: it names the Secret that has to be deleted when the job has
    ended.

    :param meta: the metadata of the job's objects.
    """
    return replace(meta, annotations={**meta.annotations, PRIVATE_KEY: _secret_name(meta)})


def environment(framework: Framework) -> dict[str, str]:
    """The variables by which a framework's launcher finds the job's own ssh settings.

    :param framework: of the job.
    """
    return dict.fromkeys(framework.remote_shell_variables, CLIENT)


def secret(meta: Meta, keys: KeyPair) -> Manifest:
    """The Secret that all replicas of a job mount, whose host names end with the job's name.

    :param meta: the metadata of the job's objects.
    :param keys: of this job only.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _secret_name(meta), "labels": dict(meta.labels)},
        "type": "Opaque",
        "stringData": {
            "key": keys.private,
            "authorized_keys": f"{keys.public}\n",
            "known_hosts": f"* {keys.public}\n",
            "config": _CLIENT_CONFIG.format(domain=meta.name),
            "sshd_config": _SERVER_CONFIG,
        },
    }


def launching(argv: Sequence[str], first: Address) -> list[str]:
    """A launcher's command line that also copies the result of rank 0 to the launcher's pod.

    :param argv: the launcher's own command line.
    :param first: the address at which it starts rank 0.
    """
    return ["/bin/sh", "-c", _LAUNCH, "sh", first.host, *argv]


def mount(template: Manifest, meta: Meta) -> None:
    """Mount the job's keys into a Pod's first container.

    :param template: the Pod's template.
    :param meta: the metadata of the job's objects.
    """
    spec = template["spec"]
    spec["volumes"] = [
        *spec.get("volumes", []),
        # Any user of the container can read it.
        {"name": _VOLUMES["keys"], "secret": {"secretName": _secret_name(meta), "defaultMode": 0o444}},
        {"name": _VOLUMES["own"], "emptyDir": {"medium": "Memory"}},
    ]
    container = spec["containers"][0]
    container["volumeMounts"] = [*container.get("volumeMounts", []), *_mounts()]


def wait_for(template: Manifest, hosts: Sequence[Address]) -> None:
    """Start a Pod's containers only once all hosts answer: no ssh client waits for a name that does not exist yet.

    :param template: the Pod's template, with the keys mounted.
    :param hosts: the addresses to wait for.
    """
    spec = template["spec"]
    container = spec["containers"][0]
    # A quota may require resources of each container, and a policy a security context. The user's entry in /etc/passwd
    # may be mounted.
    same: dict[str, Any] = {
        field: deepcopy(container[field])
        for field in ("image", "imagePullPolicy", "resources", "securityContext", "volumeMounts")
        if field in container
    }
    waiting = {
        "name": "wait-for-ssh",
        **same,
        "command": ["/bin/sh", "-c", _WAIT, "sh", *(address.host for address in hosts)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    spec["initContainers"] = [*spec.get("initContainers", []), waiting]


def _secret_name(meta: Meta) -> str:
    return f"{meta.name}{SSH_SECRET}"


def _mounts() -> list[Manifest]:
    keys = [{"name": _VOLUMES["keys"], "mountPath": path, "readOnly": True} for path in (_HOME, _KEYS)]
    return [*keys, {"name": _VOLUMES["own"], "mountPath": _OWN}]
