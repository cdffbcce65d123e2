"""The runtime that a job of Kubeflow Trainer starts from, and what its initializers fetch.

https://www.kubeflow.org/docs/components/trainer/user-guides/builtin-trainer/torchtune/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Tag, model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, name_or_mapping, wrong
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.variables import Env
from airflow_trainer_provider.spec.values.words import Text, rendered_hint

#: The pattern and limits of a TrainJob's fields in its CustomResourceDefinition.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
_LONGEST_URI = 2048
_MOST_VARIABLES = 128


def _storage_uri(value: str) -> str:
    if not _URI.fullmatch(value) or len(value) > _LONGEST_URI:
        allowed = f"a URI of at most {_LONGEST_URI} characters, e.g. hf://tatsu-lab/alpaca or s3://sets/small"
        raise wrong(allowed, "Write the scheme, '://', and the place.")
    return value


class InitializerSource(SpecModel):
    """What one initializer fetches. Fields that are not set keep the runtime's values.

    :param storage_uri: the URI of the data, e.g. ``hf://tatsu-lab/alpaca``; the initializer reads it from the variable
        ``STORAGE_URI``.
    :param env: environment variables of this initializer only; they replace the runtime's variables by name.
    :param secret: a Secret of the job's namespace, whose keys become variables of the initializer.
    """

    storage_uri: Annotated[Text, AfterValidator(_storage_uri)] | None = None
    env: Annotated[Env, Field(max_length=_MOST_VARIABLES)] = Field(default_factory=dict)
    secret: ObjectName | None = None

    @model_validator(mode="after")
    def _something(self) -> InitializerSource:
        if not (self.storage_uri or self.env or self.secret):
            raise wrong("at least one of storage_uri, env and secret", "Set one of them, or drop it.", value="none")
        return self


class Initializer(SpecModel):
    """What the runtime's initializers fetch before the training starts.

    :param dataset: what the step ``dataset-initializer`` fetches.
    :param model: what the step ``model-initializer`` fetches.
    """

    dataset: InitializerSource | None = None
    model: InitializerSource | None = None

    @property
    def sources(self) -> dict[str, InitializerSource]:
        """The sources that are set, by the names ``dataset`` and ``model``."""
        given = {"dataset": self.dataset, "model": self.model}
        return {name: source for name, source in given.items() if source is not None}


class RuntimeRef(SpecModel):
    """A runtime, and values for its initializers.

    :param name: the runtime's name, or ``kind/name``.
    :param initializer: what the runtime's initializers fetch.
    """

    name: Text
    initializer: Initializer | None = None


def _named(value: Any) -> Any:
    """Turn a mapping with only a name into the name."""
    hint = rendered_hint(value) if isinstance(value, str) else None
    if hint:
        raise wrong("a name, or a mapping with it", hint, value="str")
    is_name = isinstance(value, Mapping) and isinstance(value.get("name"), str) and not value.get("initializer")
    return value["name"] if is_name and value.keys() <= {"name", "initializer"} else value


#: A runtime's name, or a mapping with it.
Runtime = Annotated[
    Annotated[Text, Tag("(name)")] | Annotated[RuntimeRef, Tag("(mapping)")],
    name_or_mapping(RuntimeRef),
    BeforeValidator(_named),
]
