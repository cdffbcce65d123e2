"""The arguments of a function that is a job: JSON values, and nothing of Airflow's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.functions.code import check_arguments


def check_call(signature: inspect.Signature, args: Collection[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call that the job could not make when the DAG file is parsed, where upstream values are not known yet.

    :param signature: of the function.
    :param args: of the call.
    :param kwargs: of the call.
    :raises SpecError: an argument is missing, which TaskFlow takes from the task's context; or JSON does not have one.
    """
    check_arguments(_mapped(lambda value: None, arguments_of(signature, list(args), dict(kwargs))))


def arguments_of(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names.

    :param signature: of the function.
    :param args: of the call.
    :param kwargs: of the call.
    :raises SpecError: the function cannot be called so.
    """
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        fix = 'Pass it. Variables of the task\'s context reach no job by themselves: pass ds="{{ ds }}", for example.'
        raise SpecError([Problem("the call", str(error), "the arguments of the function", fix)]) from None


def resolved(value: Any) -> Any:
    """A value as the function gets it: the values of mapped tasks, which Airflow reads one by one, become a list.

    :param value: as rendered.
    """
    return _mapped(lambda each: list(each) if isinstance(each, Sequence) else each, value)


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """A copy of a value with the objects in it replaced that stand for what tasks return."""
    if isinstance(value, dict):
        return {key: _mapped(change, each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(change, each) for each in value]
    is_airflows = type(value).__module__.startswith("airflow.")
    if is_airflows and (hasattr(value, "iter_references") or isinstance(value, Sequence)):
        return change(value)
    return value
