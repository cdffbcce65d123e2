"""Refuses volumes that no pod of a job can have, before any pod is created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.job.plan.checkpoint import MOUNT_PATH, VOLUME_NAME
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.objects import files, function, ssh
from airflow_trainer_provider.kinds.objects.scheduling.compute import SHARED_MEMORY
from airflow_trainer_provider.kinds.objects.volumes.fetch import ROOT
from airflow_trainer_provider.spec.values.paths import is_within
from airflow_trainer_provider.spec.volumes import Volume

_TEMPLATE = "pod_template.spec"
#: Volumes that the operators add to the pods of MPI jobs.
_OPERATORS = frozenset({"mpi-hostfile", "mpi-job-config", "mpi-job-kubectl", "mpi-ssh-auth", "ssh-auth"})
#: Source of a volume that an init container fills -> the option that names the container's image.
_IMAGES = {"git": "git_image", "s3": "s3_image"}


def check_volumes(job: JobPlan, train: Mapping[str, Any]) -> None:
    """Refuse volumes that contradict each other, the pod template, or the volumes that this provider mounts itself.

    :param job: the job.
    :param train: the training's container in the user's template.
    :raises SpecError: naming the fields and the way out.
    """
    given = {
        f"{prefix}volumes[{at}]": volume
        for prefix, part in job.spec.parts
        for at, volume in enumerate(part.volumes or ())
    }
    problems = [*_checkpoints_in_template(job, train)]
    for path, volume in given.items():
        problems += [
            *_taken(job, path, volume),
            *_in_template(job, path, volume, train),
            *_without_image(path, volume),
        ]
    paths: dict[Volume, str] = {}
    for path, volume in given.items():
        paths.setdefault(volume, path)
    problems = problems or [*_in_one_pod(job, paths), *_shared_claims(job, paths), *_one_pod_only(job, paths)]
    problems += _shared_memory(job, paths)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))


def _taken(job: JobPlan, path: str, volume: Volume) -> Iterator[Problem]:
    """A path or a name that this provider, or an operator, uses itself."""
    checkpoints = (MOUNT_PATH,) if job.spec.checkpoint else ()
    own = (
        files.FOLDER,
        function.FOLDER,
        ROOT,
        *checkpoints,
        *((*ssh.PATHS, files.MPI_FOLDER) if job.is_launched else ()),
    )
    if any(is_within(volume.mount_path, folder) or is_within(folder, volume.mount_path) for folder in own):
        allowed = f"a path that is not one of the provider's own ({', '.join(own)}), nor above or below one"
        yield Problem(f"{path}.mount_path", volume.mount_path, allowed, "Mount it elsewhere, e.g. at /data.")
    if job.is_launched and volume.pod_name in _OPERATORS:
        allowed = f"a name other than {', '.join(sorted(_OPERATORS))}, which the operators use"
        yield Problem(f"{path}.name", volume.pod_name, allowed, "Give it another name.")


def _in_template(job: JobPlan, path: str, volume: Volume, train: Mapping[str, Any]) -> Iterator[Problem]:
    """A volume that the pod template also has, so that it is unclear which one is meant."""
    spec = (job.spec.pod_template or {}).get("spec") or {}
    for at, each in enumerate(spec.get("volumes", ())):
        if each.get("name") == volume.pod_name:
            other = f"{_TEMPLATE}.volumes[{at}]"
            fix = f"Give it another name, or drop {other}; sidecars can mount the volumes of the job by name."
            yield Problem(f"{path}.name", volume.pod_name, f"a name other than that of {other}", fix)
    for field, key in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for at, each in enumerate(train.get(field) or ()):
            if isinstance(each, Mapping) and each.get(key) == volume.mount_path:
                other = f"{_TEMPLATE}.containers[name={train['name']}].{field}[{at}]"
                fix = f"Mount one of them elsewhere, or drop {other}."
                yield Problem(f"{path}.mount_path", volume.mount_path, f"a path other than that of {other}", fix)


def _checkpoints_in_template(job: JobPlan, train: Mapping[str, Any]) -> Iterator[Problem]:
    """A volume of the pod template that has the name, or is mounted at the path, of the folder for checkpoints."""
    if job.spec.checkpoint is None:
        return
    volumes = ((job.spec.pod_template or {}).get("spec") or {}).get("volumes", ())
    taken = [(f"{_TEMPLATE}.volumes[{at}].name", each.get("name")) for at, each in enumerate(volumes)]
    for at, each in enumerate(train.get("volumeMounts") or ()):
        path = f"{_TEMPLATE}.containers[name={train['name']}].volumeMounts[{at}].mountPath"
        taken.append((path, each.get("mountPath") if isinstance(each, Mapping) else None))
    for path, value in taken:
        if value in (VOLUME_NAME, MOUNT_PATH):
            yield Problem(path, value, "another value beside checkpoint, which has this one", "Change it.")


def _without_image(path: str, volume: Volume) -> Iterator[Problem]:
    option = _IMAGES.get(volume.source)
    if option and getattr(volume, volume.source).image is None:
        program = "git" if volume.git else "rclone"
        fix = f"Set it, or [trainer] {option} in Airflow's configuration for all jobs."
        yield Problem(f"{path}.{volume.source}.image", None, f"the name of a container image with {program}", fix)


def _in_one_pod(job: JobPlan, paths: Mapping[Volume, str]) -> Iterator[Problem]:
    """Different volumes of one name in the same pod."""
    for volumes in dict.fromkeys(replica.volumes for replica in job.replicas):
        first: dict[str, Volume] = {}
        for volume in volumes:
            other = first.setdefault(volume.pod_name, volume)
            if _source(volume) != _source(other):
                yield _same_name(paths[volume], volume, paths[other])


def _shared_claims(job: JobPlan, paths: Mapping[Volume, str]) -> Iterator[Problem]:
    """Different claims of one name in a job."""
    first: dict[str, Volume] = {}
    for volumes in dict.fromkeys(replica.volumes for replica in job.replicas):
        for volume in volumes:
            if volume.new_claim:
                other = first.setdefault(volume.pod_name, volume)
                if other.new_claim != volume.new_claim:
                    yield _same_name(paths[volume], volume, paths[other])


def _one_pod_only(job: JobPlan, paths: Mapping[Volume, str]) -> Iterator[Problem]:
    """A claim for one pod that several replicas mount: all but one of them would wait for ever."""
    counts: Counter[str] = Counter()
    volumes: dict[str, Volume] = {}
    for replica in job.replicas:
        own = {each.pod_name: each for each in replica.volumes if each.new_claim}
        counts.update(own.keys())
        volumes |= own
    for name, volume in volumes.items():
        modes = volume.new_claim.access_modes if volume.new_claim else ()
        if counts[name] > 1 and "ReadWriteOncePod" in modes:
            allowed = f"a mode that lets {counts[name]} replicas mount it"
            fix = "Write ReadWriteMany, or give each replica that needs one a claim of its own."
            yield Problem(f"{paths[volume]}.new_claim.access_modes", "ReadWriteOncePod", allowed, fix)


def _shared_memory(job: JobPlan, paths: Mapping[Volume, str]) -> Iterator[Problem]:
    """A volume that is mounted at the path of the replica's shared memory."""
    for replica in job.replicas:
        if replica.resources is None or replica.resources.shared_memory is None:
            continue
        for volume in replica.volumes:
            if volume.mount_path.rstrip("/") == SHARED_MEMORY:
                other = f"{job.source(replica, 'resources')[0]}.shared_memory"
                allowed = f"a path other than that of {other}"
                yield Problem(f"{paths[volume]}.mount_path", volume.mount_path, allowed, "Drop one of them.")


def _same_name(path: str, volume: Volume, other: str) -> Problem:
    allowed = f"the source of {other}, which has the same name, or another name"
    return Problem(f"{path}.name", volume.pod_name, allowed, "Give one of them another name.")


def _source(volume: Volume) -> Any:
    return volume.source, getattr(volume, volume.source)
