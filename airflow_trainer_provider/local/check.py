"""Refuses, before anything is created, what this machine cannot run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_trainer_provider.errors import Problem, SpecError, UnsupportedField
from airflow_trainer_provider.frameworks.layout import Job, Replica
from airflow_trainer_provider.local.environment import inherited_environment
from airflow_trainer_provider.local.machine import check_fits

if TYPE_CHECKING:
    from airflow_trainer_provider.kinds.manifest import ManifestJob


def spec_job(backend: str, job: Job | ManifestJob) -> Job:
    """The job, which has to be one of a spec.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises UnsupportedField: it is a manifest.
    """
    if isinstance(job, Job):
        return job
    fix = f"A {job.kind.resource.kind} needs a cluster: drop backend."
    raise UnsupportedField(backend, Problem("manifest", job.kind.resource.kind, "no value", fix))


def check(backend: str, job: Job) -> None:
    """Refuse images, programs and folders that are not here, and more than this machine has.

    :param backend: the backend's name, for the error.
    :param job: the job.
    :raises SpecError: naming the field, its value and the way out.
    """
    for part, prefix, names in (
        (job.spec, "", ("runtime_ref", "queue_name", "pod_template", "on_kill_action", "on_finish_action")),
        (job.spec.run_policy, "run_policy.", ("startup_timeout_seconds", "ttl_seconds_after_finished")),
    ):
        for name in names:
            if name in part.model_fields_set:
                allowed = "no value: there is no cluster behind it"
                problem = Problem(prefix + name, getattr(part, name), allowed, f"Drop {name}, or use a cluster.")
                raise UnsupportedField(backend, problem)
    for replica in job.replicas:
        if replica.resources and replica.resources.gpu is not None:
            field, _ = job.source(replica, "resources")
            allowed = "no value: the processes see all GPUs of this machine"
            fix = "Drop gpu, or choose GPUs with CUDA_VISIBLE_DEVICES in env."
            raise UnsupportedField(backend, Problem(f"{field}.gpu", replica.resources.gpu, allowed, fix))
        if replica.image is not None:
            allowed = "no image: the processes run on this machine as they are"
            field, image = job.source(replica, "image")
            raise UnsupportedField(backend, Problem(field, image, allowed, "Drop image, or use a cluster."))
    for name in job.spec.replicas:
        if not job.framework.role(name).runs_command:
            _refuse_own_settings(backend, job, name)
    elsewhere = [replica for replica in job.replicas if not job.framework.role(replica.group).runs_command]
    for replica in elsewhere:
        if replica.resources:
            allowed = f"no value: the {job.framework.automatic} starts all processes, and they share its limits"
            fix = f"Set replicas.{job.framework.automatic}.resources for all together, or use a cluster."
            field, resources = job.source(replica, "resources")
            value = resources.model_dump(exclude_none=True)
            raise UnsupportedField(backend, Problem(field, value, allowed, fix))
    here = [replica for replica in job.replicas if job.framework.role(replica.group).runs_command]
    problems = [problem for replica in here for problem in (*_programs(job, replica), *_folder(job, replica))]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    check_fits(backend, job)


def _refuse_own_settings(backend: str, job: Job, group: str) -> None:
    """Processes that another replica's launcher starts here have that replica's environment and folder."""
    settings = job.spec.replicas[group]
    for path, part in ((group, settings), *((f"{group}.overrides", override) for override in settings.overrides)):
        for field in ("env", "working_dir"):
            if getattr(part, field) is not None:
                allowed = f"no value: on this machine they are those of the {job.framework.automatic}"
                problem = Problem(f"replicas.{path}.{field}", "a value", allowed, f"Set {field} of the job.")
                raise UnsupportedField(backend, problem)


def _programs(job: Job, replica: Replica) -> Iterator[Problem]:
    # As the user wrote it: a launcher may want the script without the interpreter before it.
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
    """Whether the system will find it, which looks from where the process starts, with the process's own PATH."""
    if os.sep in program:
        program = str(Path(replica.working_dir or os.devnull, program))
    return shutil.which(program, path=replica.env.get("PATH", inherited_environment()["PATH"])) is not None


def _folder(job: Job, replica: Replica) -> Iterator[Problem]:
    folder = replica.working_dir
    # A relative one would lie in the job's own folder, which is new and empty.
    if folder and not (Path(folder).is_absolute() and Path(folder).is_dir()):
        fix = "Make the folder first, or drop working_dir to start in the job's own folder."
        yield Problem(job.source(replica, "working_dir")[0], folder, "the whole path of a folder on this machine", fix)
