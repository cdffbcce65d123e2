"""Maps field names of Kubernetes and of Airflow's Kubernetes operators to their place in a spec."""

from __future__ import annotations

import re

from airflow_trainer_provider.spec.values.plain import path

#: The name of the container in a ``pod_template`` that runs the training.
TRAINING_CONTAINER = "train"
_POD = "pod_template.spec."
_TRAIN = f"pod_template.spec.containers[name={TRAINING_CONTAINER}]."
#: Fields of a PodSpec that users often write outside of it.
_POD_FIELDS = (
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "shareProcessNamespace",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
#: Fields of a container that users often write outside of it.
_CONTAINER_FIELDS = (
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "startupProbe",
    "volumeDevices",
    "volumeMounts",
)
#: Name in Kubernetes or in Airflow's operators -> the field of the spec with the same meaning.
_FIELDS = {
    "activeDeadlineSeconds": "run_policy.active_deadline_seconds",
    "arguments": "args",
    "backoffLimit": "run_policy.backoff_limit",
    "cleanPodPolicy": "run_policy.clean_pods",
    "cmds": "command",
    "containerResources": "resources_per_node",
    "containerSecurityContext": f"{_TRAIN}securityContext",
    "envVars": "env",
    "gracePeriod": "run_policy.grace_period_seconds",
    "limits": "resources_per_node",
    "podFailurePolicy": "run_policy.exit_codes",
    "requests": "resources_per_node",
    "resources": "resources_per_node",
    "restartPolicy": "run_policy.backoff_limit",
    "startupTimeoutSeconds": "run_policy.startup_timeout_seconds",
    "terminationGracePeriod": "run_policy.grace_period_seconds",
    "terminationGracePeriodSeconds": "run_policy.grace_period_seconds",
    "ttlSecondsAfterFinished": "run_policy.ttl_seconds_after_finished",
    "workingDir": "working_dir",
}


#: Fields of a container that also exist as fields of the job.
_TRAIN_FIELDS = frozenset({"args", "command", "env", "image", "workingDir"})
#: Fields of both a PodSpec and a container, normalized by :func:`_key`.
_BOTH = frozenset({"securitycontext"})
_LONGEST_NAME = 63


def _key(name: str) -> str:
    """A name without case and separators: equal for ``nodeSelector`` and ``node_selector``."""
    return name.replace("_", "").replace("-", "").lower()


_OF_CONTAINERS = frozenset(map(_key, (*_CONTAINER_FIELDS, *_TRAIN_FIELDS)))
_IN_POD = frozenset(_POD + name for name in _POD_FIELDS)
_PLACES = {
    **{_key(name): _POD + name for name in _POD_FIELDS},
    **{_key(name): _TRAIN + name for name in _CONTAINER_FIELDS},
    **{_key(name): f"pod_template.metadata.{name}" for name in ("annotations", "labels")},
    **{_key(name): place for name, place in _FIELDS.items()},
}
#: Field of a job and of its groups -> names in Kubernetes, Run:ai and other tools -> the part of that field.
_OWN = {
    "scheduling": {
        "affinity": "node_affinity",
        "nodeAffinity": "node_affinity",
        "nodePool": "node_pools",
        "nodePools": "node_pools",
        "nodeSelector": "node_selector",
        "podAffinity": "topology",
        "priorityClass": "priority_class",
        "priorityClassName": "priority_class",
        "schedulerName": "scheduler_name",
        "tolerations": "tolerations",
        "topology": "topology",
        "topologySpreadConstraints": "topology",
    },
    "pod": {
        "annotations": "annotations",
        "envFrom": "env_from",
        "fsGroup": "security.fs_group",
        "gid": "security.run_as_group",
        "imagePullPolicy": "image_pull.policy",
        "imagePullSecrets": "image_pull.secrets",
        "labels": "labels",
        "runAsGroup": "security.run_as_group",
        "runAsUser": "security.run_as_user",
        "security": "security",
        "securityContext": "security",
        "serviceAccount": "service_account",
        "serviceAccountName": "service_account",
        "supplementalGroups": "security.supplemental_groups",
        "uid": "security.run_as_user",
    },
}
#: Name in other tools -> field of the whole job, which groups do not have.
_OF_JOB = {
    **dict.fromkeys(("localqueue", "queue", "queuename"), "scheduling.queue_name"),
    **dict.fromkeys(("gang", "gangscheduling", "podgroup", "podgrouppolicy", "schedulingpolicy"), "scheduling.gang"),
    **dict.fromkeys(("minavailable", "minmember"), "scheduling.gang.min_available"),
    "minresources": "scheduling.gang.min_resources",
    "networktopology": "scheduling.gang.network_topology",
    "scheduletimeoutseconds": "scheduling.gang.timeout_seconds",
}
_OWN_PLACES = {_key(name): f"{field}.{place}" for field, places in _OWN.items() for name, place in places.items()}
#: Names of volume fields in Kubernetes and other tools -> names within ``volumes``.
_IN_VOLUMES = {
    "branch": "revision",
    "capacity": "size, within new_claim",
    "claimname": "claim",
    "commit": "revision",
    "containerpath": "mount_path",
    "credentials": "secret_name",
    "devicepath": "mount_path",
    "ephemeral": "new_claim",
    "existingclaim": "claim",
    "persistentvolumeclaim": "claim, the claim's name alone",
    "pvc": "claim, the claim's name alone",
    "ref": "revision",
    "secretname": "name",
    "sizelimit": "size",
    "storage": "size",
    "storageclassname": "storage_class",
    "tag": "revision",
    "target": "mount_path",
    "url": "repository",
    "volumeclaimtemplate": "new_claim",
}
_RENDEZVOUS = "Drop it: the rendezvous is c10d, which the first node holds; rdzv_conf has its options."
#: Names in the Training Operator and torchrun of the fields of ``elastic`` -> the remedy.
_IN_ELASTIC = {
    "maxreplicas": "Write max_nodes.",
    "minreplicas": "Write min_nodes.",
    **dict.fromkeys(("rdzvbackend", "rdzvendpoint", "rdzvhost", "rdzvid", "rdzvport", "standalone"), _RENDEZVOUS),
    "metrics": "Drop it: the number of nodes does not follow the load.",
}
_STORE = "Mount a claim or a host_path, or let the script save to the object store and read from it by itself."
#: Names in other tools of the fields of ``checkpoint``, and of settings that it does not have -> the remedy.
_IN_CHECKPOINT = {
    **dict.fromkeys(("address", "bucket", "gcs", "gs", "remote", "s3", "storageuri", "store", "uri", "url"), _STORE),
    **dict.fromkeys(("claimname", "persistentvolumeclaim", "pvc"), "Write claim, the claim's name alone."),
    **dict.fromkeys(("dir", "directory", "folder"), "Write host_path, or path for the folder within a claim."),
}
#: Names for volumes outside of a ``pod_template``, where a job has ``volumes`` -> the remedy.
_VOLUMES = dict.fromkeys(
    ("volume", "volumes", "volumedevices", "volumemounts"),
    "Write it as volumes: a list, each entry with a mount_path and a source.",
)
_IN_PARTS: dict[tuple[str | int, ...], dict[str, str]] = {("elastic",): _IN_ELASTIC, ("checkpoint",): _IN_CHECKPOINT}
#: Names within ``resources_per_node`` that it does not have -> the remedy.
_AMOUNTS = {
    "limits": 'Write each resource with its own limits, e.g. {"cpu": {"limits": 4}}.',
    "requests": 'Write each resource with its own requests, e.g. {"cpu": {"requests": 2}}.',
    "nvidia.com/gpu": 'Write "gpu".',
    "mem": 'Write "memory".',
    "shm": 'Write "shared_memory".',
    "shm_size": 'Write "shared_memory".',
    "shmsize": 'Write "shared_memory".',
}
#: Names of resources in Kubernetes and other tools, outside of ``resources_per_node`` -> the resource there.
_AMOUNT_NAMES = {
    **dict.fromkeys(("cpu", "cpus", "numcpus"), "cpu"),
    **dict.fromkeys(("gpu", "gpus", "gpuspernode", "nvidia.com/gpu", "numgpus", "numgpuspernode"), "gpu"),
    **dict.fromkeys(("mem", "memory", "ram"), "memory"),
    **dict.fromkeys(("sharedmemory", "shm", "shmsize"), "shared_memory"),
}
#: Resources of Kubernetes' device plugins, by their whole names: node labels begin with the same domains.
_DEVICES = re.compile(
    r"nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|google\.com/tpu"
    r"|aws\.amazon\.com/neuron(core|device)?|vpc\.amazonaws\.com/efa|huawei\.com/Ascend.*|rdma/.+"
)
#: Prefix of a path in the spec -> fields of the job below it that do not exist in a pod template.
_OF_THE_JOB = {
    "": (
        "checkpoint",
        "elastic",
        "framework",
        "launcher",
        "metrics",
        "name",
        "num_nodes",
        "num_proc_per_node",
        "num_workers",
        "on_finish_action",
        "on_kill_action",
        "pod",
        "pod_template",
        "replicas",
        "resources_per_node",
        "run_policy",
        "runtime_ref",
        "scheduling",
        "tools",
        "working_dir",
    ),
    "pod.": ("env_from", "image_pull", "service_account"),
    "run_policy.": (
        "active_deadline_seconds",
        "backoff_limit",
        "clean_pods",
        "exit_codes",
        "grace_period_seconds",
        "infrastructure_retries",
        "on_oom",
        "startup_timeout_seconds",
        "ttl_seconds_after_finished",
    ),
    "scheduling.": (
        "node_affinity",
        "node_pool_label",
        "node_pools",
        "node_selector",
        "priority_class",
        "queue_name",
        "scheduler_name",
    ),
}
_JOB_PLACES = {name: part + name for part, names in _OF_THE_JOB.items() for name in names}
_SOURCES = ("claim", "config_map", "empty_dir", "git", "host_path", "new_claim", "s3")
#: Level in a pod template -> parts of the job's volumes and resources that users write there -> the job's field.
_PARTS = {
    "volume": dict.fromkeys((*_SOURCES, "mount_path", "read_only", "sub_path"), "volumes"),
    "mount": dict.fromkeys(_SOURCES, "volumes"),
    "resources": {name: f"resources_per_node.{name}" for name in ("cpu", "extended", "gpu", "memory", "shared_memory")},
}
#: Source of a volume in the spec -> its name in Kubernetes.
_IN_KUBERNETES = {
    "claim": "persistentVolumeClaim.claimName",
    "config_map": "configMap",
    "empty_dir": "emptyDir",
    "host_path": "hostPath",
}


def way_out(place: tuple[str | int, ...]) -> str | None:
    """Where to write a field that is unknown in its current place.

    :param place: the field's path in the spec.
    :return: a sentence; None for a name that is not in any table.
    """
    name = str(place[-1])
    if place[-2:-1] in (("resources_per_node",), ("resources",)):
        return _AMOUNTS.get(name.lower()) or _resource(name)
    if "volumes" in place[:-1]:
        right = _IN_VOLUMES.get(_key(name))
        return f"Write {right}." if right else None
    whole = _IN_PARTS.get(place[:-1], _VOLUMES)
    if _key(name) in whole:
        return whole[_key(name)]
    if own := _own_place(place, name) or _amount_place(place, name):
        return f"Write it as {own}."
    right = _right_place(name)
    if right is None:
        return None
    shared = " It holds for all replicas." if place[0] == "replicas" and right.startswith("pod_template") else ""
    return f"Write it as {right}.{shared}"


def _own_place(place: tuple[str | int, ...], name: str) -> str | None:
    """The path of the job's field for a name; within a group or an override, the path of that part's field."""
    if whole := _OF_JOB.get(_key(name) if len(name) <= _LONGEST_NAME else ""):
        return f"{whole}, which is of the whole job" if place[0] == "replicas" else whole
    own = _OWN_PLACES.get(_key(name)) if len(name) <= _LONGEST_NAME else None
    if own is None:
        return None
    return path((*_part_of(place), own))


def _amount_place(place: tuple[str | int, ...], name: str) -> str | None:
    """The path of a resource: in ``resources_per_node``, or in the ``resources`` of a group or an override."""
    if len(name) > _LONGEST_NAME or place[0] == "launcher":
        return None
    part = _part_of(place)
    whole = (*part, "resources") if part else ("resources_per_node",)
    if own := _AMOUNT_NAMES.get(_key(name)):
        return path((*whole, own))
    return f'{path((*whole, "extended"))}, e.g. {{"{name}": 1}}' if _DEVICES.fullmatch(name) else None


def _device_place(name: str) -> str | None:
    """The job's field for a resource of a device plugin; None for any other name."""
    if len(name) > _LONGEST_NAME or not _DEVICES.fullmatch(name):
        return None
    return f"resources_per_node.{_AMOUNT_NAMES.get(_key(name), 'extended')}"


def _part_of(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The path of the group or the override that contains a field; empty if the field is the job's."""
    if place[0] != "replicas":
        return ()
    return place[:4] if place[2:3] == ("overrides",) else place[:2]


def template_way_out(level: str, name: str) -> str | None:
    """Where to write a field that is at the wrong level of a ``pod_template``.

    :param level: the level at which it was found: ``template``, ``spec``, ``container``, ``volume``, ``mount`` or
        ``resources``.
    :param name: the field's name.
    :return: a sentence; None for a name that may be valid at this level.
    """
    if own := _device_place(name):
        return f"Write it as {own}, a field of the job, or into {_TRAIN}resources.limits."
    if level in _PARTS:
        return _part_way_out(level, name)
    if name in _JOB_PLACES and not (level == "container" and _key(name) in _OF_CONTAINERS):
        return _job_way_out(name)
    right = _right_place(name)
    if level == "spec":
        right = f"{_TRAIN}{name}" if name in _TRAIN_FIELDS else right
        wrong = right is not None and right.startswith((_TRAIN, "pod_template.metadata."))
    elif level == "container":
        wrong = right in _IN_POD and _key(name) not in _BOTH
    else:
        wrong = right is not None
    return f"Write it as {right}." if wrong else None


def _job_way_out(name: str) -> str:
    right = _right_place(name)
    other = f", or as {right}" if right and right.startswith("pod_template.") else ""
    return f"Write it as {_JOB_PLACES[name]}, a field of the job{other}."


def _part_way_out(level: str, name: str) -> str | None:
    own = _PARTS[level].get(name)
    if own != "volumes":
        return f"Write it as {own}, a field of the job, or into limits." if own else None
    other = f" Kubernetes calls it {_IN_KUBERNETES[name]}." if level == "volume" and name in _IN_KUBERNETES else ""
    return f"Write the volume into volumes, a field of the job, with its mount_path.{other}"


def _right_place(name: str) -> str | None:
    return _PLACES.get(_key(name)) if len(name) <= _LONGEST_NAME else None


def _resource(name: str) -> str | None:
    if "/" in name:
        shown = name[:_LONGEST_NAME]
        return f'Write it as extended, e.g. {{"extended": {{"{shown}": 1}}}}; for an accelerator, as gpu likewise.'
    if name.startswith(("hugepages-", "ephemeral-storage")):
        return f"Write it into {_TRAIN}resources.limits; the pods get it beside these."
    return None
