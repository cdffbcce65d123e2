"""The operators for a single framework."""

from __future__ import annotations

from typing import Any

from airflow_trainer_provider.operators.train_job import TrainJobOperator


class PyTorchJobOperator(TrainJobOperator):
    """Run a PyTorch job: a master and workers, each under torchrun."""

    def __init__(self, *, framework: str = "pytorch", **kwargs: Any) -> None:
        super().__init__(framework=framework, **kwargs)


class TFJobOperator(TrainJobOperator):
    """Run a TensorFlow job: chief, workers, parameter servers and evaluator, joined by TF_CONFIG."""

    def __init__(self, *, framework: str = "tensorflow", **kwargs: Any) -> None:
        super().__init__(framework=framework, **kwargs)


class MPIJobOperator(TrainJobOperator):
    """Run an MPI job: mpirun runs on a launcher and starts the processes on the workers.

    :param slots_per_worker: the number of processes on each worker; MPI's term for ``num_proc_per_node``.
    """

    def __init__(self, *, framework: str = "mpi", slots_per_worker: int | str | None = None, **kwargs: Any) -> None:
        if slots_per_worker is not None:
            kwargs.setdefault("num_proc_per_node", slots_per_worker)
        super().__init__(framework=framework, **kwargs)


class XGBoostJobOperator(TrainJobOperator):
    """Run an XGBoost job: a master, whose process runs the tracker, and workers."""

    def __init__(self, *, framework: str = "xgboost", **kwargs: Any) -> None:
        super().__init__(framework=framework, **kwargs)


class PaddleJobOperator(TrainJobOperator):
    """Run a PaddlePaddle job in collective mode: workers under paddle.distributed.launch."""

    def __init__(self, *, framework: str = "paddle", **kwargs: Any) -> None:
        super().__init__(framework=framework, **kwargs)


class JAXJobOperator(TrainJobOperator):
    """Run a JAX job: one process on each worker, joined by jax.distributed.initialize()."""

    def __init__(self, *, framework: str = "jax", **kwargs: Any) -> None:
        super().__init__(framework=framework, **kwargs)
