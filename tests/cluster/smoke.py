"""The smoke tests: what each backend has to do on a cluster, in some minutes. They run on the profile ``smoke``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Name of the profile.
SMOKE = "smoke"

#: The tests, by their files below tests/cluster. Each belongs to another profile too, on which the whole run has it.
TESTS = (
    # Success with a result.
    "contract/test_outcome.py::test_success_has_a_result_and_a_row_for_each_replica[native]",
    "contract/test_outcome.py::test_success_has_a_result_and_a_row_for_each_replica[trainer]",
    "contract/test_outcome.py::test_success_has_a_result_and_a_row_for_each_replica[training-operator]",
    # The first cause of a failure.
    "contract/test_verdicts.py::test_a_rank_that_raises[trainer]",
    "contract/test_verdicts.py::test_a_rank_that_raises[training-operator]",
    "contract/test_verdicts.py::test_a_module_that_is_missing[mpi-operator]",
    # Tries, ends and logs.
    "contract/test_adoption.py::test_the_next_try_adopts_a_running_job[training-operator]",
    "contract/test_cancel.py::test_a_process_may_use_its_grace_period[native]",
    "contract/test_logs.py::test_a_reader_that_stops_goes_on_where_it_was[trainer]",
    "test_logs.py::test_each_line_once_while_connections_are_cut",
    # Through one Airflow.
    "airflow/test_faults.py::test_the_next_try_adopts_the_job_of_a_killed_worker[native]",
    "airflow/test_faults.py::test_deferred_jobs_outlive_their_triggerer[SIGKILL]",
    "airflow/test_faults.py::test_marking_the_task_failed_ends_the_job[deferred-training-operator]",
    "airflow/test_frameworks.py::test_it_trains_waiting_and_deferred[mpi-operator-mpi]",
)


def missing(collected: Iterable[str]) -> Sequence[str]:
    """The smoke tests that pytest has not found: renamed, or gone.

    :param collected: the ids of those that it has.
    """
    return sorted(set(TESTS) - set(collected))
