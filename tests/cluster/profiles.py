"""What is installed in the cluster: controllers, and profiles that combine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Controller:
    """A controller that runs in the cluster from its own manifests.

    :param module: its Go module in pins.yaml, and its image.
    :param manifests: folder in the module that ``kubectl kustomize`` renders.
    :param namespace: where its pods run.
    :param deployment: name of its Deployment.
    :param args: flags added to those of the manifests; a name in braces stands for another image.
    :param without: CustomResourceDefinitions of its manifests that another controller of the profile brings.
    """

    module: str
    manifests: str
    namespace: str
    deployment: str
    args: Sequence[str] = field(default_factory=tuple)
    without: Sequence[str] = ()


TRAINING_OPERATOR = Controller(
    module="training-operator",
    manifests="manifests/overlays/standalone",
    namespace="kubeflow",
    deployment="training-operator",
    args=("--pytorch-init-container-image={tiny}", "--mpi-kubectl-delivery-image={kubectl_delivery}"),
)
TRAINER = Controller(
    module="trainer",
    manifests="manifests/overlays/manager",
    namespace="kubeflow-system",
    deployment="kubeflow-trainer-controller-manager",
    args=("--feature-gates=TrainJobStatus=true",),
)
JOBSET = Controller(
    module="jobset",
    manifests="config/default",
    namespace="jobset-system",
    deployment="jobset-controller-manager",
)
KUEUE = Controller(
    module="kueue",
    manifests="config/default",
    namespace="kueue-system",
    deployment="kueue-controller-manager",
)
MPI_OPERATOR = Controller(
    module="mpi-operator",
    manifests="manifests/overlays/standalone",
    namespace="mpi-operator",
    deployment="mpi-operator",
)


@dataclass(frozen=True)
class Profile:
    """A set of controllers that can live in one cluster.

    :param controllers: what is installed.
    :param objects: files in manifests/ with objects of ours, created once the controllers' webhooks answer.
    :param probes: files in manifests/ with objects whose creation passes every webhook; they are only tried
        (dry run), until the API server accepts them.
    :param gangs: whether there is a second scheduler, which places the pods of a PodGroup together.
    """

    name: str
    controllers: Sequence[Controller]
    objects: Sequence[str] = ()
    probes: Sequence[str] = ()
    gangs: bool = False


# The Training Operator and the MPI Operator define the same CRD, mpijobs.kubeflow.org, in different versions. They can
# share a cluster only where the Training Operator does without its MPIJob, which has to be tested too.
_KINDS_BESIDE_MPI = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
_TRAINING_OPERATOR_BESIDE_MPI = replace(
    TRAINING_OPERATOR,
    args=(*TRAINING_OPERATOR.args, *(f"--enable-scheme={kind}" for kind in _KINDS_BESIDE_MPI)),
    without=("mpijobs.kubeflow.org",),
)

PROFILES = {
    "kubeflow": Profile(
        name="kubeflow",
        controllers=(TRAINING_OPERATOR, JOBSET, TRAINER, KUEUE),
        objects=("kueue.yaml", "runtimes.yaml"),
        probes=("probe-training-operator.yaml", "probe-trainer.yaml"),
        gangs=True,
    ),
    "mpi": Profile(name="mpi", controllers=(MPI_OPERATOR,)),
    # All backends in one cluster, for the smoke tests.
    "smoke": Profile(
        name="smoke",
        controllers=(_TRAINING_OPERATOR_BESIDE_MPI, JOBSET, TRAINER, MPI_OPERATOR),
        objects=("runtimes.yaml",),
        probes=("probe-training-operator.yaml", "probe-trainer.yaml"),
    ),
}
#: Each test belongs to one of these.
OF_TESTS = ("kubeflow", "mpi")
#: What ``up`` starts when no profile is named.
DEFAULT = "kubeflow"
