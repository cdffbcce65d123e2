"""Refuses, before anything is created, what this machine cannot run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan, Plan, Replica
from airflow_trainer_provider.kinds.objects.mpi_launch import check_settings
from airflow_trainer_provider.local.environment import inherited_environment, with_variables
from airflow_trainer_provider.local.machine import check_fits, check_processes
from airflow_trainer_provider.spec import VariableSource
from airflow_trainer_provider.spec.scheduling import JobScheduling


def spec_job(backend: str, job: Plan) -> JobPlan:
    """The job, which has to be described by a spec.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises UnsupportedField: the job is a manifest.
    """
    if isinstance(job, JobPlan):
        return job
    fix = f"A {job.spec.manifest['kind']} needs a cluster: drop backend."
    raise UnsupportedField(backend, Problem("manifest", job.spec.manifest["kind"], "no value", fix))


def check(backend: str, job: JobPlan) -> None:
    """Refuse images, missing programs and folders, and requests for more than this machine has.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    check_processes(backend, job)
    _refuse_fields_of_clusters(backend, job)
    _refuse_fields_of_pods(backend, job)
    _refuse_sources(backend, job)
    check_settings(backend, job, ())
    _refuse_tools(backend, job)
    _refuse_claim(backend, job)
    for replica in job.replicas:
        _refuse_container(backend, job, replica)
    for name in job.spec.replicas:
        if not job.framework.role(name).runs_command:
            _refuse_own_settings(backend, job, name)
    problems: list[Problem] = []
    for replica in job.replicas:
        if job.framework.role(replica.group).runs_command:
            problems += [*_programs(job, replica), *_folder(job, replica), *_size(job, replica)]
        elif replica.resources:
            raise UnsupportedField(backend, _resources_elsewhere(job, replica))
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    check_fits(backend, job)


def _refuse_fields_of_clusters(backend: str, job: JobPlan) -> None:
    for part, prefix, names in (
        (job.spec, "", ("runtime_ref", "pod_template", "on_kill_action", "on_finish_action")),
        (job.spec.scheduling or JobScheduling(), "scheduling.", ("queue_name", "gang")),
        (job.spec.run_policy, "run_policy.", ("startup_timeout_seconds", "clean_pods", "on_oom")),
    ):
        for name in names:
            # The action "keep" is accepted: local jobs are kept anyway.
            if name in part.model_fields_set and (name, getattr(part, name)) != ("on_finish_action", "keep"):
                allowed = "no value: there is no cluster behind it"
                # A mapping is not shown: it may hold secrets.
                value = getattr(part, name)
                value = value if isinstance(value, (str, int, float)) else "a value"
                problem = Problem(prefix + name, value, allowed, f"Drop {name}, or use a cluster.")
                raise UnsupportedField(backend, problem)


def _refuse_fields_of_pods(backend: str, job: JobPlan) -> None:
    for prefix, settings in job.spec.parts:
        for name in ("scheduling", "pod"):
            if getattr(settings, name) is not None:
                allowed = "no value: the processes run on this machine, and in no pod"
                problem = Problem(prefix + name, "a value", allowed, f"Drop {name}, or use a cluster.")
                raise UnsupportedField(backend, problem)


def _refuse_sources(backend: str, job: JobPlan) -> None:
    for prefix, settings in job.spec.parts:
        for name, value in (settings.env or {}).items():
            if isinstance(value, VariableSource):
                allowed = "text or a number: there is no cluster behind it that could have the value"
                fix = 'Take it from Airflow in a template, e.g. "{{ conn.hub.password }}", or use a cluster.'
                raise UnsupportedField(backend, Problem(f"{prefix}env.{name}", "dict", allowed, fix))


def _refuse_tools(backend: str, job: JobPlan) -> None:
    for name, tool in job.spec.tools.items():
        if tool.access in ("node_port", "ingress"):
            allowed = "cluster or url: the tool listens on this machine, and no Service leads to it"
            fix = f"Drop access: the tool is at localhost:{tool.port}. Or use a cluster."
            raise UnsupportedField(backend, Problem(f"tools.{name}.access", tool.access, allowed, fix))
        for field in ("path", "url"):
            text = getattr(tool, field) or ""
            if "{namespace}" in text:
                allowed = "text without {namespace}: there is no cluster behind it"
                fix = "Drop {namespace}, or use a cluster."
                raise UnsupportedField(backend, Problem(f"tools.{name}.{field}", text, allowed, fix))


def _refuse_claim(backend: str, job: JobPlan) -> None:
    checkpoint = job.spec.checkpoint
    if checkpoint and checkpoint.claim is not None:
        allowed = "no value: there is no cluster behind it that could have the claim"
        fix = "Set checkpoint.host_path to a folder of this machine, or use a cluster."
        raise UnsupportedField(backend, Problem("checkpoint.claim", checkpoint.claim, allowed, fix))


def _refuse_container(backend: str, job: JobPlan, replica: Replica) -> None:
    if replica.resources and replica.resources.gpu is not None:
        field, _ = job.source(replica, "resources")
        allowed = "no value: the processes see all GPUs of this machine"
        gpu = replica.resources.model_dump(exclude_none=True)["gpu"]
        fix = "Drop gpu, or choose GPUs with CUDA_VISIBLE_DEVICES in env."
        raise UnsupportedField(backend, Problem(f"{field}.gpu", gpu, allowed, fix))
    for name in ("extended", "shared_memory"):
        if replica.resources and getattr(replica.resources, name):
            field, _ = job.source(replica, "resources")
            value = getattr(replica.resources, name)
            allowed = "no value: the processes have the devices and the /dev/shm of this machine"
            problem = Problem(f"{field}.{name}", value, allowed, f"Drop {name}, or use a cluster.")
            raise UnsupportedField(backend, problem)
    if replica.image is not None:
        allowed = "no image: the processes run on this machine as they are"
        field, image = job.source(replica, "image")
        raise UnsupportedField(backend, Problem(field, image, allowed, "Drop image, or use a cluster."))
    if replica.volumes:
        allowed = "no value: the processes see the folders of this machine"
        fix = "Drop volumes, and give the script this machine's own folders; or use a cluster."
        field, _ = job.source(replica, "volumes")
        raise UnsupportedField(backend, Problem(field, "a value", allowed, fix))


def _resources_elsewhere(job: JobPlan, replica: Replica) -> Problem:
    """The error about resources of a replica whose processes another replica's launcher starts."""
    allowed = f"no value: the {job.framework.automatic} starts all processes, and they share its limits"
    fix = f"Set replicas.{job.framework.automatic}.resources for all together, or use a cluster."
    field, resources = job.source(replica, "resources")
    return Problem(field, resources.model_dump(exclude_defaults=True), allowed, fix)


def _refuse_own_settings(backend: str, job: JobPlan, group: str) -> None:
    """Refuse an environment or a folder where another replica's launcher starts the processes: they have that
    replica's.
    """
    settings = job.spec.replicas[group]
    for path, part in ((group, settings), *((f"{group}.overrides", override) for override in settings.overrides)):
        for field in ("env", "working_dir"):
            if getattr(part, field) is not None:
                allowed = f"no value: on this machine they are those of the {job.framework.automatic}"
                problem = Problem(f"replicas.{path}.{field}", "a value", allowed, f"Set {field} of the job.")
                raise UnsupportedField(backend, problem)


def _programs(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    # The command as the user wrote it: some launchers take the script without the interpreter.
    field, command = job.source(replica, "command")
    if not command:
        fix = f'Set command, e.g. ["python", "train.py"]: without an image, {replica.name} has nothing to run.'
        yield Problem(field, None, "a list of words", fix)
        return
    for program in (*replica.launcher[:1], command[0]):
        if not program.startswith("$") and not _is_here(program, replica):
            fix = "Install it where Airflow's worker runs, or correct the name."
            yield Problem(field, program, "a program in the worker's PATH", fix)


def _is_here(program: str, replica: Replica) -> bool:
    """Whether the system will find a program, from the process's working directory and with the process's PATH."""
    if os.sep in program:
        program = str(Path(replica.working_dir or os.devnull, program))
    return shutil.which(program, path=with_variables(inherited_environment(), replica.texts)["PATH"]) is not None


def _folder(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    folder = replica.working_dir
    # A relative path would refer to a folder in the job's own folder, which is new and empty.
    if folder and not (Path(folder).is_absolute() and Path(folder).is_dir()):
        fix = "Make the folder first, or drop working_dir to start in the job's own folder."
        yield Problem(job.source(replica, "working_dir")[0], folder, "the whole path of a folder on this machine", fix)


def _size(job: JobPlan, replica: Replica) -> Iterator[Problem]:
    """Refuse arguments and variables that are too large together: Linux does not start such a process."""
    limit = os.sysconf("SC_ARG_MAX")
    env = {**inherited_environment(), **replica.texts}
    # Each text has a NUL at its end, and a pointer to it.
    sizes = {
        "env": sum(len(f"{name}={value}".encode()) + 9 for name, value in env.items()),
        "args": sum(len(word.encode()) + 9 for word in replica.argv),
    }
    if sum(sizes.values()) > limit:
        field, _ = job.source(replica, max(sizes, key=lambda name: sizes[name]))
        allowed = f"at most {limit} bytes for all arguments and variables of a process"
        fix = "Put the data into a file, and pass its name."
        yield Problem(field, f"{sum(sizes.values())} bytes", allowed, fix)
