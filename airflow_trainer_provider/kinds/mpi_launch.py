"""How mpirun runs in a launcher's pod, whose workers are other pods.

mpirun reaches the workers through ssh, or what ``OMPI_MCA_plm_rsh_agent`` names, and finds them in
``$TRAINER_FILES/hostfile``.
"""

from __future__ import annotations

from airflow_trainer_provider.frameworks.layout import Replica
from airflow_trainer_provider.kinds.base import Manifest

#: Where both operators put the hostfile.
FILES = "/etc/mpi"
#: Waits until each worker answers, as mpirun fails where one does not; then runs the command. Rank 0 is in the first
#: worker's pod, which nobody asks for a result, so its result is fetched to where the launcher's is looked for.
_SCRIPT = """\
seconds=$1 agent=${OMPI_MCA_plm_rsh_agent:-ssh}; shift
while read -r host _; do
  tries=0
  until error=$($agent "$host" true 2>&1 </dev/null); do
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


def launcher_command(launcher: Replica, template: Manifest, patience: int) -> tuple[str, ...] | None:
    """What the launcher's container runs.

    :param launcher: the job's launcher.
    :param template: its pods' template. All variables of its first container reach all ranks: mpirun gives only its
        own to them without being told.
    :param patience: how long a worker may take until it answers, in seconds.
    :return: None where the image's own entry point runs: it has to wait for the workers itself.
    """
    if not launcher.command:
        return None
    program, *words = launcher.argv
    names = [entry["name"] for entry in template["spec"]["containers"][0]["env"]]
    # A command that begins with mpirun is the user's own.
    forwarded = [word for name in names for word in ("-x", name)] if launcher.launcher else []
    return ("sh", "-c", _SCRIPT, "mpi-launcher", str(patience), program, *forwarded, *words)
