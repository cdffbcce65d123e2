"""Runs mpirun in a launcher's pod, with its workers in other pods.

mpirun reaches the workers through ssh, or through the program that ``OMPI_MCA_plm_rsh_agent`` names, and finds them in
``$TRAINER_FILES/hostfile``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from airflow_trainer_provider.errors import Problem, UnsupportedField
from airflow_trainer_provider.job.plan.plan import JobPlan
from airflow_trainer_provider.kinds.base import Manifest
from airflow_trainer_provider.kinds.objects.pod import containers_of, training_container
from airflow_trainer_provider.kinds.objects.pod_check import SPEC, pod_fields
from airflow_trainer_provider.spec import VariableSource
from airflow_trainer_provider.spec.running.launcher import OPEN_MPI

#: Waits until each worker answers, because mpirun fails where one does not; then runs the command. Rank 0 runs in the
#: first worker's pod, whose result is not read, so its result is copied to the path of the launcher's result.
_SCRIPT = """\
seconds=$1 agent=${OMPI_MCA_plm_rsh_agent:-ssh}; shift
%s
while read -r host _; do
  tries=0
  until error=$(answers "$host" 2>&1 </dev/null); do
    [ "$tries" -lt "$seconds" ] || { echo "$host does not answer: $error" >&2; exit 1; }
    [ "$((tries % 30))" -ne 5 ] || echo "waiting for $host: $error" >&2
    tries=$((tries + 1)); sleep 1
  done
done <"$TRAINER_FILES/hostfile"
"$@" & child=$!
trap 'kill -TERM "$child"' TERM
wait "$child"; code=$?
while [ "$code" -gt 128 ] && kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
if [ "$code" -eq 0 ] && [ ! -s "$TRAINER_RESULT_PATH" ]; then
  read -r host _ <"$TRAINER_FILES/hostfile"
  $agent "$host" cat "$TRAINER_RESULT_PATH" </dev/null 2>/dev/null >"$TRAINER_RESULT_PATH"
fi
exit "$code"
"""
_ANSWERS = 'answers() { $agent "$1" true; }'
#: The launcher's own pod has no ssh server, and mpirun needs none there. But as long as the pod's host name does not
#: resolve, mpirun takes it for the name of another host.
_ANSWERS_OR_RESOLVES = """\
answers() {
  [ "${1%%.*}" = "${HOSTNAME:-$(hostname)}" ] || { $agent "$1" true; return; }
  ! command -v getent >/dev/null || getent hosts "$1"
}"""


#: Hydra's hostfiles have lines ``host:slots``, those of Open MPI ``host slots=number``.
_HOST, _HYDRAS_HOST = "read -r host _", "IFS=: read -r host _"
#: Sources of a variable that are fields of the pod itself.
_POD_FIELDS = frozenset({"fieldRef", "resourceFieldRef"})
_OPERATORS = "Use backend='mpi-operator', or 'trainer' with a runtime_ref."
#: Setting of the launcher -> what a backend without it allows, and the way out.
_REFUSED = {
    "implementation": (
        f"{OPEN_MPI}: no other one is shown to work here",
        "Use backend='mpi-operator', whose controller makes the hostfile of each; or install Open MPI in the image.",
    ),
    "is_node": (
        "false: the launcher's pod only starts the ranks",
        "Drop it, or use backend 'trainer', 'mpi-operator' or 'native'.",
    ),
    "ssh_mount_path": ("no value: ssh finds the job's own keys for any user, or is not used", f"Drop it. {_OPERATORS}"),
}


def check_settings(backend: str, job: JobPlan, taken: Collection[str]) -> None:
    """Refuse settings of the launcher that a backend does not support.

    :param backend: its name.
    :param job: the job.
    :param taken: the settings that it supports.
    :raises UnsupportedField: naming the field and the way out.
    """
    given = job.spec.mpi.model_dump(exclude_defaults=True)
    for name, (allowed, fix) in _REFUSED.items():
        if name in given and name not in taken:
            raise UnsupportedField(backend, Problem(f"launcher.{name}", given[name], allowed, fix))


def check_forwarded(backend: str, job: JobPlan, container: str) -> None:
    """Refuse variables that the ranks would not have: mpirun passes on only the launcher's variables that it is given
    by name.

    :param backend: the backend's name.
    :param job: the job, whose ranks mpirun starts through ssh, which forwards no variables.
    :param container: the name that the training's container has to have in its pod.
    :raises UnsupportedField: naming the field and the way out.
    """
    if not job.leader.launcher:
        return
    train = training_container(containers_of(job.spec.pod_template), container)
    unnamed = [path for path, _ in pod_fields(job, "env_from")]
    if train.get("envFrom"):
        unnamed.append(f"{SPEC}.containers[name={train['name']}].envFrom")
    for field in unnamed:
        allowed = "no value: mpirun hands on to the ranks only variables whose names are known"
        fix = 'Name them in env, e.g. {"TOKEN": {"secret": {"name": ..., "key": ...}}}, or use backend \'native\'.'
        raise UnsupportedField(backend, Problem(field, "a value", allowed, fix))
    for path, name in _variables_of_pods(job, container):
        allowed = "no field of a pod: the ranks would have the launcher's"
        fix = "Drop it, or use backend 'native' or 'training-operator', whose ranks have their own pod's."
        raise UnsupportedField(backend, Problem(f"{path}.{name}", "dict", allowed, fix))


def launcher_command(job: JobPlan, template: Manifest, timeout: int) -> tuple[str, ...] | None:
    """The command of the launcher's container.

    :param job: the job.
    :param template: the template of the launcher's pod. All variables of its first container are passed on to all
        ranks, except those that the user takes from fields of the pod: mpirun passes on only its own variables unless
        it is given the others by name.
    :param timeout: how long a worker may take until it answers, in seconds.
    :return: None where the image's own entry point runs: it has to wait for the workers itself.
    """
    launcher = job.leader
    if not launcher.command:
        return None
    program, *words = launcher.argv
    is_hydra = job.spec.mpi.implementation != OPEN_MPI
    # If the user's own command begins with mpirun, its options are left to the user.
    options = _options(job, template, is_hydra=is_hydra) if launcher.launcher else []
    is_node = job.framework.trains(launcher.group)
    script = _SCRIPT.replace("%s", _ANSWERS_OR_RESOLVES if is_node else _ANSWERS, 1)
    if is_hydra:
        script = script.replace(_HOST, _HYDRAS_HOST)
    return ("sh", "-c", script, "mpi-launcher", str(timeout), program, *options, *words)


def _options(job: JobPlan, template: Manifest, *, is_hydra: bool) -> list[str]:
    """The options that make mpirun pass on variables; Hydra also needs the number of ranks."""
    # Fields of the pod differ between the pods: the launcher's values are not those of the ranks.
    container = template["spec"]["containers"][0]
    own = {name for _, name in _variables_of_pods(job, container["name"])}
    names = [entry["name"] for entry in container["env"] if entry["name"] not in own]
    if is_hydra:
        ranks = len(job.nodes) * int(job.spec.num_proc_per_node)
        return ["-genvlist", ",".join(names), "-n", str(ranks)]
    return [word for name in names for word in ("-x", name)]


def _variables_of_pods(job: JobPlan, container: str) -> Iterator[tuple[str, str]]:
    """The variables that the user takes from fields of the pod, which differ between the pods.

    :param job: the job.
    :param container: the name that the training's container has to have in its pod.
    :return: the path of the field that has the variables, and the name of the variable.
    """
    for prefix, part in job.spec.parts:
        for name, value in (part.env or {}).items():
            if isinstance(value, VariableSource) and value.field:
                yield f"{prefix}env", name
    train = training_container(containers_of(job.spec.pod_template), container)
    for entry in train.get("env", ()):
        if _POD_FIELDS & (entry.get("valueFrom") or {}).keys():
            yield f"{SPEC}.containers[name={train['name']}].env", entry["name"]
