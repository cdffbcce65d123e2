"""How mpirun runs in a launcher's pod, whose workers are other pods.

mpirun reaches the workers through ssh, or what ``OMPI_MCA_plm_rsh_agent`` names, and finds them in
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

#: Waits until each worker answers, as mpirun fails where one does not; then runs the command. Rank 0 is in the first
#: worker's pod, whose result is not read, so its result is fetched to where the launcher's is looked for.
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
#: The launcher's own pod has no ssh server, and mpirun needs none there. But as long as the name of that host does not
#: resolve, mpirun takes it for another host's.
_ANSWERS_OR_RESOLVES = """\
answers() {
  [ "${1%%.*}" = "${HOSTNAME:-$(hostname)}" ] || { $agent "$1" true; return; }
  ! command -v getent >/dev/null || getent hosts "$1"
}"""


#: Hydra's hostfiles have ``host:slots`` where those of Open MPI have ``host slots=number``.
_HOST, _HYDRAS_HOST = "read -r host _", "IFS=: read -r host _"
#: Sources of a variable that are the pod's own.
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
    """Refuse settings of the launcher that a backend cannot carry out.

    :param backend: its name.
    :param job: the job.
    :param taken: those that it can.
    :raises UnsupportedField: naming the field and the way out.
    """
    given = job.spec.mpi.model_dump(exclude_defaults=True)
    for name, (allowed, fix) in _REFUSED.items():
        if name in given and name not in taken:
            raise UnsupportedField(backend, Problem(f"launcher.{name}", given[name], allowed, fix))


def check_forwarded(backend: str, job: JobPlan, container: str) -> None:
    """Refuse variables that the ranks would not have: mpirun hands on those of the launcher that it is given by name.

    :param backend: the backend's name.
    :param job: the job, whose ranks mpirun starts by an ssh that takes no variables along.
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
    """What the launcher's container runs.

    :param job: the job.
    :param template: the launcher's pods' template. All variables of its first container reach all ranks, but those that
        the user takes from fields of the pod: mpirun passes on only its own unless it is given the others by name.
    :param timeout: how long a worker may take until it answers, in seconds.
    :return: None where the image's own entry point runs: it has to wait for the workers itself.
    """
    launcher = job.leader
    if not launcher.command:
        return None
    program, *words = launcher.argv
    is_hydra = job.spec.mpi.implementation != OPEN_MPI
    # A command that begins with mpirun is the user's own.
    options = _options(job, template, is_hydra=is_hydra) if launcher.launcher else []
    is_node = job.framework.trains(launcher.group)
    script = _SCRIPT.replace("%s", _ANSWERS_OR_RESOLVES if is_node else _ANSWERS, 1)
    if is_hydra:
        script = script.replace(_HOST, _HYDRAS_HOST)
    return ("sh", "-c", script, "mpi-launcher", str(timeout), program, *options, *words)


def _options(job: JobPlan, template: Manifest, *, is_hydra: bool) -> list[str]:
    """The options by which mpirun hands on variables; Hydra's also has to be given the number of ranks."""
    # A field of the pod differs between the pods: those of the launcher's are not the ranks'.
    container = template["spec"]["containers"][0]
    own = {name for _, name in _variables_of_pods(job, container["name"])}
    names = [entry["name"] for entry in container["env"] if entry["name"] not in own]
    if is_hydra:
        ranks = len(job.nodes) * int(job.spec.num_proc_per_node)
        return ["-genvlist", ",".join(names), "-n", str(ranks)]
    return [word for name in names for word in ("-x", name)]


def _variables_of_pods(job: JobPlan, container: str) -> Iterator[tuple[str, str]]:
    """The variables that the user takes from fields of their pod, and that differ between the pods.

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
