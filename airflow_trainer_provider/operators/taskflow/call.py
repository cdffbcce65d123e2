"""The arguments of a function that runs as a job: JSON values, without Airflow's objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.functions.code import check_arguments


def check_call(signature: inspect.Signature, args: Collection[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse an invalid call already when the DAG file is parsed. The values of upstream tasks are not known then.

    :param signature: the function's signature.
    :param args: the call's positional arguments.
    :param kwargs: the call's keyword arguments.
    :raises SpecError: an argument is missing, since none is taken from the task's context here, or JSON does not
        support an argument.
    """
    check_arguments(_mapped(lambda value: None, arguments_of(signature, list(args), dict(kwargs))))


def arguments_of(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names.

    :param signature: the function's signature.
    :param args: the call's positional arguments.
    :param kwargs: the call's keyword arguments.
    :raises SpecError: the arguments do not match the signature.
    """
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        fix = 'Pass it. Variables of the task\'s context reach no job by themselves: pass ds="{{ ds }}", for example.'
        raise SpecError([Problem("the call", str(error), "the arguments of the function", fix)]) from None


def resolved(value: Any) -> Any:
    """The value that the function receives: the lazy sequence with a mapped task's values becomes a list.

    :param value: the rendered value.
    """
    return _mapped(lambda each: list(each) if isinstance(each, Sequence) else each, value)


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """A copy of a value, in which the objects that represent return values of tasks are replaced."""
    if isinstance(value, dict):
        return {key: _mapped(change, each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(change, each) for each in value]
    is_airflows = type(value).__module__.startswith("airflow.")
    if is_airflows and (hasattr(value, "iter_references") or isinstance(value, Sequence)):
        return change(value)
    return value
