"""The operators that run a function of the DAG file as a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import DecoratedOperator

from airflow_trainer_provider.get_provider_info import DECORATORS
from airflow_trainer_provider.operators.frameworks import (
    JAXJobOperator,
    MPIJobOperator,
    PaddleJobOperator,
    PyTorchJobOperator,
    TFJobOperator,
    XGBoostJobOperator,
)
from airflow_trainer_provider.operators.outcome import fail_without_value
from airflow_trainer_provider.operators.train_job import TrainJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_trainer_provider.functions.code import Code

_FIX = "Drop it: the function is what runs, and what it needs are its arguments. An operator runs a command."


class FunctionJobOperator(DecoratedOperator, TrainJobOperator):
    """Run a function of the DAG file on each rank of a job, and return the function's value on rank 0.

    Accepts all parameters of :class:`~airflow_trainer_provider.operators.train_job.TrainJobOperator` except
    ``command``, ``args`` and ``manifest``. The XComs are the same, except that ``return_value`` is the function's
    value, and ``summary`` has the job's summary.

    :param python_callable: the function.
    :param op_args: positional arguments of the call: JSON values; templated.
    :param op_kwargs: keyword arguments of the call: JSON values; templated.
    :param include: your own modules that are sent with the function: names of packages, and of ``.py`` files in the
        folder of the DAG file.
    """

    custom_operator_name = "@task.train_job"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *TrainJobOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **TrainJobOperator.template_fields_renderers,
    }

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        include: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        from airflow_trainer_provider.operators.taskflow.call import check_call

        code = function_code(python_callable, include, kwargs)
        is_partial = bool(kwargs.get("_airflow_mapped_validation_only"))
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, **kwargs)
        self.include = include
        self.code = code
        if self.render_only or not self.wait_for_completion:
            # The task does not return the function's value then. Airflow infers multiple_outputs from its annotation.
            self.multiple_outputs = False
        if not is_partial:
            check_call(inspect.signature(python_callable), self.op_args, self.op_kwargs)

    @property
    def is_async(self) -> bool:
        """Always False for Airflow: an async function runs in the job."""
        return False

    def _own_fields(self) -> dict[str, Any]:
        from airflow_trainer_provider.functions.code import check_arguments
        from airflow_trainer_provider.job.result import VALUE_LIMIT_BYTES
        from airflow_trainer_provider.operators.taskflow.call import arguments_of, resolved
        from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND

        args, kwargs = resolved(list(self.op_args)), resolved(dict(self.op_kwargs))
        check_arguments(arguments_of(inspect.signature(self.python_callable), args, kwargs))
        function = {
            "name": self.code.name,
            "files": self.code.call(args, kwargs, VALUE_LIMIT_BYTES),
            "digest": self.code.digest(args, kwargs),
        }
        return {"command": list(FUNCTION_COMMAND), "function": function}

    def process_result(self, context: Context, summary: dict[str, Any]) -> Any:
        """Return the function's value.

        :param context: the context of this try.
        :param summary: the job's summary, which is pushed to XCom as ``summary``.
        """
        from airflow_trainer_provider.job.result import without_large_value
        from airflow_trainer_provider.operators.taskflow.outputs import keep_own_keys

        ti: Any = context["ti"]
        ti.xcom_push(key="summary", value=without_large_value(summary))
        problem = summary.get("result_error")
        if not problem and "function" not in summary:
            problem = "rank 0 has written no value: nothing shows that the function was called to its end"
        if problem:
            fail_without_value(ti, problem)
        keep_own_keys(ti, self, summary["result"])
        return summary["result"]


def function_code(function: Any, include: Any, fields: Mapping[str, Any]) -> Code:
    """Collect a function and the code that it needs from its DAG file.

    :param function: the decorated function.
    :param include: the decorator's parameter.
    :param fields: the decorator's other parameters.
    :raises SpecError: the function cannot run as a job, or a parameter is set that the function replaces.
    """
    from airflow_trainer_provider.errors import Problem, SpecError
    from airflow_trainer_provider.functions.code import code_of

    given = [name for name in ("command", "args", "manifest") if fields.get(name) is not None]
    if given:
        raise SpecError([Problem(name, "a value", "no value beside a function", _FIX) for name in given])
    return code_of(function, include, DECORATORS)


class PyTorchFunctionOperator(FunctionJobOperator, PyTorchJobOperator):
    """Run a function as a PyTorch job: on each rank, under torchrun."""

    custom_operator_name = "@task.pytorch_job"


class TFFunctionOperator(FunctionJobOperator, TFJobOperator):
    """Run a function as a TensorFlow job: on chief, workers, parameter servers and evaluator."""

    custom_operator_name = "@task.tensorflow_job"


class MPIFunctionOperator(FunctionJobOperator, MPIJobOperator):
    """Run a function as an MPI job: on each rank, under mpirun."""

    custom_operator_name = "@task.mpi_job"


class XGBoostFunctionOperator(FunctionJobOperator, XGBoostJobOperator):
    """Run a function as an XGBoost job: on master and workers."""

    custom_operator_name = "@task.xgboost_job"


class PaddleFunctionOperator(FunctionJobOperator, PaddleJobOperator):
    """Run a function as a Paddle job: on each rank, under paddle.distributed.launch."""

    custom_operator_name = "@task.paddle_job"


class JAXFunctionOperator(FunctionJobOperator, JAXJobOperator):
    """Run a function as a JAX job: on each worker."""

    custom_operator_name = "@task.jax_job"
