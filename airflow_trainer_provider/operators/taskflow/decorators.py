"""``@task.pytorch_job`` and its siblings, which Airflow finds in the provider's info."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import task_decorator_factory

from airflow_trainer_provider.operators.taskflow.operator import (
    FunctionJobOperator,
    JAXFunctionOperator,
    MPIFunctionOperator,
    PaddleFunctionOperator,
    PyTorchFunctionOperator,
    TFFunctionOperator,
    XGBoostFunctionOperator,
    function_code,
)

_Function = Callable[..., Any]


def _decorator(operator: type[FunctionJobOperator]) -> Callable[..., Any]:
    def decorator(python_callable: _Function | None = None, multiple_outputs: bool | None = None, **kwargs: Any) -> Any:
        def decorate(function: _Function) -> Any:
            # Checked here as well, since the operators of mapped tasks are created only when the tasks run.
            function_code(function, kwargs.get("include"), kwargs)
            return task_decorator_factory(
                function, multiple_outputs=multiple_outputs, decorated_operator_class=operator, **kwargs
            )

        return decorate if python_callable is None else decorate(python_callable)

    decorator.__doc__ = operator.__doc__
    return decorator


train_job_task = _decorator(FunctionJobOperator)
pytorch_job_task = _decorator(PyTorchFunctionOperator)
tensorflow_job_task = _decorator(TFFunctionOperator)
mpi_job_task = _decorator(MPIFunctionOperator)
xgboost_job_task = _decorator(XGBoostFunctionOperator)
paddle_job_task = _decorator(PaddleFunctionOperator)
jax_job_task = _decorator(JAXFunctionOperator)
