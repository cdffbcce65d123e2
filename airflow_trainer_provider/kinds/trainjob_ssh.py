"""How mpirun's ssh works in the pods of a TrainJob.

Trainer mounts a key pair of the job's own with mode 0640, which ssh refuses to a user who owns the file. So user 1000
runs both sides, and reads the key through its group. The image has to bring Open MPI 4, ssh, ssh-keygen, sshd at
``/usr/sbin/sshd``, a shell, and a user with the id 1000 who has a login shell.
"""

from __future__ import annotations

from airflow_trainer_provider.kinds.base import Manifest

#: Where Trainer mounts the keys.
KEYS = "/home/mpiuser/.ssh"
_PORT = 2222
_USER = 1000
_ENVIRONMENT = "/tmp/trainer-environment"
_HOST_KEY = "/tmp/trainer-host-key"
#: mpirun and the launcher's script start ssh by it; its words are split at spaces.
_AGENT = (
    f"ssh -q -p {_PORT} -i {KEYS}/id_rsa -o BatchMode=yes -o ConnectTimeout=10 "
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
)
# A session of ssh lacks what the image and the pod set, such as PATH and variables from Secrets.
_SERVER = f"""\
umask 077
export -p > {_ENVIRONMENT}
ssh-keygen -q -t ed25519 -N '' -f {_HOST_KEY} && exec /usr/sbin/sshd -D -e -f /dev/null -h {_HOST_KEY} -p {_PORT} \\
  -o PidFile=none -o StrictModes=no -o UsePAM=no -o UseDNS=no -o LogLevel=ERROR -o MaxStartups=200 \\
  -o AuthorizedKeysFile={KEYS}/authorized_keys \\
  -o ForceCommand='. {_ENVIRONMENT}; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
"""


def serve(template: Manifest) -> None:
    """Let a worker's pods take ssh sessions; they are ready once they do.

    :param template: the pods' template.
    """
    container = template["spec"]["containers"][0]
    container["command"] = ["/bin/sh", "-c", _SERVER]
    container.pop("args", None)
    container.setdefault("readinessProbe", {"tcpSocket": {"port": _PORT}, "periodSeconds": 1})
    _as_user(template)


def use_ssh(template: Manifest) -> None:
    """Let the launcher's pod start such sessions.

    :param template: the pod's template.
    """
    container = template["spec"]["containers"][0]
    if not any(entry["name"] == "OMPI_MCA_plm_rsh_agent" for entry in container["env"]):
        container["env"].append({"name": "OMPI_MCA_plm_rsh_agent", "value": _AGENT})
    _as_user(template)


def _as_user(template: Manifest) -> None:
    spec = template["spec"]
    spec["securityContext"] = {"fsGroup": _USER, **(spec.get("securityContext") or {})}
    container = spec["containers"][0]
    container["securityContext"] = {"runAsUser": _USER, **(container.get("securityContext") or {})}
