"""The cluster that tests run on: ours, or any that TRAINER_TEST_KUBECONFIG names."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import Cluster, running_profile
from tests.cluster.kubectl import Kubectl
from tests.cluster.shell import CommandFailed

#: A kubeconfig of an existing cluster to run the tests on.
KUBECONFIG_VARIABLE = "TRAINER_TEST_KUBECONFIG"
# What shows that a profile's controllers are there: the APIs that they bring.
_TRAINER, _MPI_OPERATOR = "trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2beta1"
_APIS = {"kubeflow": {_TRAINER}, "mpi": {_MPI_OPERATOR}, "smoke": {_TRAINER, _MPI_OPERATOR}}


class Unavailable(RuntimeError):
    """There is no cluster to run tests on; the message says what to do."""


@dataclass(frozen=True)
class Access:
    """A cluster that answers.

    :param kubectl: its administrator.
    :param profiles: profiles whose tests it can run.
    :param own: the cluster on this machine, whose parts tests may break; None for any other cluster.
    """

    kubectl: Kubectl
    profiles: frozenset[str]
    own: Cluster | None


def connect() -> Access:
    """Find the cluster.

    :raises Unavailable: when there is none, or it does not answer.
    """
    existing = os.environ.get(KUBECONFIG_VARIABLE)
    if existing:
        return _existing(existing)
    profile = running_profile()
    if profile is None:
        raise Unavailable(f"no test cluster is up: make cluster-up, or name another in {KUBECONFIG_VARIABLE}")
    cluster = Cluster()
    return Access(cluster.kubectl, frozenset({profile}), cluster)


def _existing(kubeconfig: str) -> Access:
    if not Path(kubeconfig).exists():
        raise Unavailable(f"{KUBECONFIG_VARIABLE} names {kubeconfig}, which does not exist")
    program = shutil.which("kubectl")
    if program is None:
        raise Unavailable(f"tests on an existing cluster ({KUBECONFIG_VARIABLE}) need kubectl on the PATH")
    kubectl = Kubectl(program, kubeconfig)
    try:
        versions = set(kubectl("api-versions").split())
    except CommandFailed as error:
        raise Unavailable(f"the cluster of {KUBECONFIG_VARIABLE} does not answer: {error}") from error
    return Access(kubectl, frozenset(name for name, apis in _APIS.items() if apis <= versions), None)
