"""Refuses settings that no pod of a job may have, before any pod is created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.objects.labels import MANAGED_BY, PREFIX, QUEUE
from airflow_trainer_provider.kinds.objects.pod import containers_of, training_container
from airflow_trainer_provider.kinds.objects.scheduling.gpu_share import check_shares
from airflow_trainer_provider.kinds.objects.volumes.check import check_volumes
from airflow_trainer_provider.spec.misplaced import TRAINING_CONTAINER
from airflow_trainer_provider.spec.validation import nearest
from airflow_trainer_provider.spec.values.variables import variable_problem

#: The field that holds a user's settings of the pods themselves.
SPEC = "pod_template.spec"
#: Fields of a pod's spec that follow from fields of the job.
_OWN_FIELDS = {
    "restartPolicy": "run_policy.backoff_limit",
    "terminationGracePeriodSeconds": "run_policy.grace_period_seconds",
}
#: Fields of the training's container through which the result is read.
_RESULT_FIELDS = ("terminationMessagePath", "terminationMessagePolicy")


def check_pod_template(job: JobPlan) -> None:
    """Refuse settings of the pod template that other fields control, and reserved labels and annotations.

    :param job: the job.
    :raises SpecError: naming the field and the way out.
    """
    template = job.spec.pod_template or {}
    given = template.get("spec") or {}
    problems = [
        Problem(f"{SPEC}.{name}", _shown(given[name]), "no value", f"Drop it, and set {field} instead.")
        for name, field in _OWN_FIELDS.items()
        if name in given
    ]
    problems += _own_names("pod_template.metadata.labels", (template.get("metadata") or {}).get("labels") or {})
    for prefix, part in job.spec.parts:
        if part.pod:
            problems += _own_names(f"{prefix}pod.labels", part.pod.labels)
            problems += _own_names(f"{prefix}pod.annotations", part.pod.annotations)
            if QUEUE in part.pod.labels:
                fix = "Drop it, and set scheduling.queue_name instead."
                problems.append(Problem(f"{prefix}pod.labels", QUEUE, "labels of your own", fix))
    if problems:
        raise SpecError(problems)


def _own_names(field: str, given: Iterable[str]) -> Iterator[Problem]:
    """Labels or annotations that this provider sets."""
    for name in given:
        if name == MANAGED_BY or name.startswith(f"{PREFIX}/"):
            allowed = f"{field.rpartition('.')[2]} of your own"
            yield Problem(field, name, allowed, f"Drop it; {PREFIX} sets it.")


def check_containers(job: JobPlan, container: str) -> None:
    """Refuse containers whose purpose is unclear, and containers without an image.

    :param job: the job.
    :param container: the name that the training's container has to have in its pod.
    :raises SpecError: naming the field and the way out.
    """
    containers = containers_of(job.spec.pod_template)
    training = [at for at, each in enumerate(containers) if each["name"] in (TRAINING_CONTAINER, container)]
    if containers and not training:
        raise SpecError([_no_training(containers, container)])
    allowed, fix = "one container for the training", "Merge it with the other one."
    problems = [Problem(f"{SPEC}.containers[{at}].name", containers[at]["name"], allowed, fix) for at in training[1:]]
    # A runtime may provide the images of the sidecars and of the training.
    if job.spec.runtime_ref is None:
        problems += [*_sidecars(containers, training), *_images(job, container)]
    for at in training:
        problems += _training(f"{SPEC}.containers[{at}]", containers[at])
    if problems:
        raise SpecError(problems)
    check_volumes(job, training_container(containers, container))
    check_shares(job)


def check_variables(backend: str, job: JobPlan, container: str, taken: Collection[str], fix: str) -> None:
    """Refuse variables of the job that a controller would overwrite.

    :param backend: the backend's name.
    :param job: the job.
    :param container: the name that the training's container has to have in its pod.
    :param taken: the names that the controller sets.
    :param fix: the way out; ``{name}`` stands for the variable.
    :raises UnsupportedField: naming the field and the way out.
    """
    train = training_container(containers_of(job.spec.pod_template), container)
    given = {entry["name"]: f"{SPEC}.containers[name={train['name']}].env" for entry in train.get("env", ())}
    for prefix, part in job.spec.parts:
        given |= dict.fromkeys(part.env or (), f"{prefix}env")
    for name in sorted(given.keys() & taken):
        allowed = f"names other than {', '.join(sorted(taken))}"
        raise UnsupportedField(backend, Problem(given[name], name, allowed, fix.format(name=name)))


def security_contexts(job: JobPlan, container: str) -> Mapping[str, Mapping[str, Any]]:
    """The security contexts of a user's ``pod_template``, which decide the user that the training runs as.

    :param job: the job.
    :param container: the name that the training's container has to have in its pod.
    :return: path of the field -> the security context; the pod's, and the container's, which takes precedence.
    """
    training = training_container(containers_of(job.spec.pod_template), container)
    given = {
        SPEC: (job.spec.pod_template or {}).get("spec") or {},
        f"{SPEC}.containers[name={training.get('name')}]": training,
    }
    return {f"{path}.securityContext": fields.get("securityContext") or {} for path, fields in given.items()}


def pod_fields(job: JobPlan, name: str, *groups: str) -> Iterator[tuple[str, Any]]:
    """The values that the user gave for a field of ``pod``, wherever it applies to replicas of some groups.

    :param job: the job.
    :param name: of the field, e.g. ``security.run_as_user``.
    :param groups: the groups; none for all groups.
    :return: the field's path and its value, for each place where it is given.
    """
    for prefix, part in job.spec.parts:
        if prefix and groups and not prefix.startswith(tuple(f"replicas.{group}." for group in groups)):
            continue
        value: Any = part.pod
        for each in name.split("."):
            value = getattr(value, each, None)
        if value not in (None, ()):
            yield f"{prefix}pod.{name}", value


def _shown(value: Any) -> Any:
    """A value of the template as an error may show it: a mapping may hold secrets."""
    return value if isinstance(value, (str, int)) else type(value).__name__


def _no_training(containers: Sequence[Mapping[str, Any]], container: str) -> Problem:
    near = next((at for at, each in enumerate(containers) if nearest(each["name"], (TRAINING_CONTAINER, container))), 0)
    fix = f"Rename it to {TRAINING_CONTAINER!r}."
    if containers[near].get("image"):
        sidecar = f'{{"name": "{TRAINING_CONTAINER}"}}'
        fix += f" If it is a sidecar, add {sidecar} to the containers."
    allowed = f"{TRAINING_CONTAINER!r} for the training's container; containers beside it are sidecars"
    return Problem(f"{SPEC}.containers[{near}].name", containers[near]["name"], allowed, fix)


def _sidecars(containers: Sequence[Mapping[str, Any]], training: Sequence[int]) -> Iterator[Problem]:
    for at, each in enumerate(containers):
        if at not in training and not each.get("image"):
            fix = f"Set it; or write the settings of the training's container into {TRAINING_CONTAINER!r}."
            yield Problem(f"{SPEC}.containers[{at}].image", None, f"an image for sidecar {each['name'][:63]!r}", fix)


def _images(job: JobPlan, container: str) -> Iterator[Problem]:
    given = training_container(containers_of(job.spec.pod_template), container).get("image")
    for replica in job.replicas:
        if replica.image is None and not given:
            field, _ = job.source(replica, "image")
            fix = f"Set image for all replicas, or replicas.{replica.group}.image."
            yield Problem(field, None, "the name of a container image", fix)
            return


def _training(field: str, container: Mapping[str, Any]) -> Iterator[Problem]:
    for name in _RESULT_FIELDS:
        if name in container:
            fix = "Drop it: the result that rank 0 writes is read from there."
            yield Problem(f"{field}.{name}", _shown(container[name]), "no value", fix)
    for at, entry in enumerate(container.get("env", ())):
        problem = variable_problem(entry["name"])
        if problem:
            yield Problem(f"{field}.env[{at}].name", problem.value, problem.allowed, problem.fix)
