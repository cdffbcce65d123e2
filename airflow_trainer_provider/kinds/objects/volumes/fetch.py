"""Init containers that fetch data into an empty volume before the training starts.

``git`` clones a repository into a subfolder of the volume, because git does not trust a folder of another user, such as
an emptyDir. Objects are copied with rclone (https://rclone.org/s3/), which supports any store with the S3 API. Both run
as the training's user, which needs no entry in /etc/passwd, except for ssh.

Credentials are in Secrets: git reads them from files, rclone from variables. No manifest and no log contains their
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import urlsplit

from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.spec.volume_sources import S3, Git
from airflow_trainer_provider.spec.volumes import Volume

#: The folder in which the init containers find the volume, their own files, and git's credentials.
ROOT = "/run/trainer-fetch"
_TARGET, _HOME, _SECRET = f"{ROOT}/volume", f"{ROOT}/home", f"{ROOT}/secret"
#: The volume for the init containers' own files. It is in memory, because it may hold a copy of a private key.
_HOME_VOLUME = "trainer-fetch"
#: The folder of the repository within its volume.
CHECKOUT = "checkout"
#: The resources that an init container gets, because a quota may require them. It gets no devices.
_PLAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Keys of the Secret with an object store's credentials, and the variables that rclone reads.
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# ssh refuses a private key that others can read, and the files of a mounted Secret never belong to the container's
# user. git asks a program for the user name and the password, which the program gives out only for the repository's own
# server. The last output of a failed container becomes its message.
_CLONE = f"""\
set -eu
repository=$1 revision=$2 host=$3 secret={_SECRET}; shift 3
export HOME={_HOME} LC_ALL=C GIT_TERMINAL_PROMPT=0
rm -f "$HOME/known_hosts"
if [ -e "$secret/ssh-privatekey" ]; then
  id -un >/dev/null 2>&1 || {{ echo "ssh needs the pod's user $(id -u) in /etc/passwd of the image" >&2; exit 1; }}
  (umask 077; {{ cat "$secret/ssh-privatekey"; echo; }} >"$HOME/key")
  known="$HOME/known_hosts" check=accept-new
  if [ -e "$secret/known_hosts" ]; then known="$secret/known_hosts" check=yes; fi
  options="-o IdentitiesOnly=yes -o BatchMode=yes -o UserKnownHostsFile=$known -o StrictHostKeyChecking=$check"
  export GIT_SSH_COMMAND="ssh -F /dev/null -i $HOME/key $options"
elif [ -e "$secret/password" ]; then
  cat >"$HOME/ask" <<END
#!/bin/sh
case \\$1 in
  Username*"//$host'"*) if [ -e $secret/username ]; then cat $secret/username; else echo git; fi ;;
  Password*["/@"]"$host'"*) cat $secret/password ;;
esac
END
  chmod +x "$HOME/ask"
  export GIT_ASKPASS="$HOME/ask"
elif [ -e "$secret" ]; then
  echo "the Secret has neither ssh-privatekey nor username and password" >&2; exit 1
fi
rm -rf {_TARGET}/{CHECKOUT}
git init --quiet {_TARGET}/{CHECKOUT}
cd {_TARGET}/{CHECKOUT}
git remote add origin "$repository"
git ls-remote --quiet origin >/dev/null
# Not every server can send a part of the history, and none knows the short id of a commit.
if git fetch --quiet --depth 1 origin "$revision" 2>/dev/null || git fetch --quiet origin "$revision" 2>/dev/null; then
  commit=FETCH_HEAD
else
  git fetch --quiet --tags origin '+refs/heads/*:refs/remotes/origin/*'
  commit=$(git rev-parse --quiet --verify "$revision^{{commit}}") || {{
    echo "$repository has no branch, tag or commit $revision" >&2; exit 1; }}
fi
git -c advice.detachedHead=false checkout --quiet --detach "$commit"
for part; do [ -e "./$part" ] || {{ echo "$repository has no $part at $revision" >&2; exit 1; }}; done
rm -f "$HOME/key"
"""
# For a prefix that does not exist, rclone copies nothing and succeeds.
_COPY = f"""\
set -eu
uri=$1; shift
rclone copy --config=/dev/null "$@" ":s3:${{uri#s3://}}" {_TARGET}
[ -n "$(ls -A {_TARGET})" ] || {{ echo "$uri has no objects" >&2; exit 1; }}
"""


def fetching(volume: Volume, parts: Sequence[str], train: Mapping[str, Any]) -> Manifest | None:
    """The init container that fills a volume; None for a volume that needs none.

    :param volume: the volume.
    :param parts: the paths within the volume that are mounted.
    :param train: the training's container.
    """
    if volume.git:
        fetch = _cloning(volume, volume.git, parts)
    elif volume.s3:
        fetch = _copying(volume, volume.s3)
    else:
        return None
    resources = {
        side: {name: amount for name, amount in amounts.items() if name in _PLAIN_RESOURCES}
        for side, amounts in (train.get("resources") or {}).items()
        if side in ("requests", "limits")
    }
    return {
        "name": f"fetch-{volume.pod_name}",
        **fetch,
        **({"resources": resources} if any(resources.values()) else {}),
        # With the training's security context, the fetched files belong to the user that the training runs as.
        **({"securityContext": deepcopy(train["securityContext"])} if "securityContext" in train else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def helper_volumes(volume: Volume) -> list[Manifest]:
    """The volumes of the pod that only the init container mounts.

    :param volume: the volume that it fills.
    """
    if not volume.git:
        return []
    home = {"name": _HOME_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    if volume.git.secret_name is None:
        return [home]
    # Any user of the container can read it.
    secret = {"secretName": volume.git.secret_name, "defaultMode": 0o444}
    return [home, {"name": _secret_volume(volume), "secret": secret}]


def _secret_volume(volume: Volume) -> str:
    return f"{_HOME_VOLUME}-{volume.pod_name}"


def _cloning(volume: Volume, git: Git, parts: Sequence[str]) -> Manifest:
    mounts: list[Manifest] = [
        {"name": volume.pod_name, "mountPath": _TARGET},
        {"name": _HOME_VOLUME, "mountPath": _HOME},
    ]
    if git.secret_name is not None:
        mounts.append({"name": _secret_volume(volume), "mountPath": _SECRET, "readOnly": True})
    words = (git.repository, git.revision or "HEAD", urlsplit(git.repository).netloc, *parts)
    return {"image": git.image, "command": ["sh", "-c", _CLONE, "git-clone", *words], "volumeMounts": mounts}


def _copying(volume: Volume, s3: S3) -> Manifest:
    # This must not be the last option: where the job is shown, the text after a word such as "auth" is masked.
    options = ["--s3-env-auth"] if s3.secret_name else []
    options.append(f"--s3-provider={'Other' if s3.endpoint else 'AWS'}")
    options += [f"--s3-endpoint={s3.endpoint}"] if s3.endpoint else []
    options += [f"--s3-region={s3.region}"] if s3.region else []
    container: Manifest = {"image": s3.image, "command": ["sh", "-c", _COPY, "s3-copy", s3.uri, *options]}
    if s3.secret_name is not None:
        container["env"] = [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": s3.secret_name, "key": name}}}
            for name in _CREDENTIALS
        ]
    return {**container, "volumeMounts": [{"name": volume.pod_name, "mountPath": _TARGET}]}
