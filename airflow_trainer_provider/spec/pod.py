"""Settings of a job's pods: their account, user and groups, image pulls, labels, and whole sources of variables."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, Whole, wrong
from airflow_trainer_provider.spec.values.labels import Annotations, Labels
from airflow_trainer_provider.spec.values.limits import MOST_INT32
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.variables import variable_problem
from airflow_trainer_provider.spec.values.words import Text

#: Kubernetes takes at most so many supplemental groups, and Linux many more.
_MOST_ITEMS = 100
#: The number of a user or a group.
Id = Annotated[Whole, Field(ge=0, le=MOST_INT32)]


class Security(SpecModel):
    """The user and groups that the containers run as. An unset field keeps the image's setting.

    :param run_as_user: the user's number.
    :param run_as_group: the number of the user's primary group.
    :param supplemental_groups: more groups of the user.
    :param fs_group: the group that volumes belong to, as far as they support it.
    """

    run_as_user: Id | None = None
    run_as_group: Id | None = None
    supplemental_groups: Annotated[tuple[Id, ...], Field(max_length=_MOST_ITEMS)] = ()
    fs_group: Id | None = None


class ImagePull(SpecModel):
    """How the nodes get the images.

    :param policy: when the image of the training is pulled; None for Kubernetes' default, which depends on its tag.
    :param secrets: the Secrets with the credentials of registries.
    """

    policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    secrets: Annotated[tuple[ObjectName, ...], Field(max_length=_MOST_ITEMS)] = ()


def _prefix(value: str) -> str:
    problem = variable_problem(value)
    if problem:
        raise wrong(problem.allowed, problem.fix, value=problem.value)
    return value


class VariablesFrom(SpecModel):
    """An object whose keys all become variables: one of the two.

    :param secret: the name of a Secret.
    :param config_map: the name of a ConfigMap.
    :param prefix: what stands before each key in the variable's name.
    """

    secret: ObjectName | None = None
    config_map: ObjectName | None = None
    prefix: Annotated[Text, AfterValidator(_prefix)] | None = None

    @model_validator(mode="after")
    def _one_object(self) -> VariablesFrom:
        if (self.secret is None) == (self.config_map is None):
            raise wrong("either secret or config_map", "Write one entry for each object.", value=_given(self))
        return self


def _given(value: Any) -> str:
    return " and ".join(sorted({"secret", "config_map"} & value.model_fields_set)) or "neither"


class PodSettings(SpecModel):
    """Settings of the pods.

    :param service_account: the ServiceAccount that the pods run under, with a token of it; without it they run under
        the namespace's default one and get no token.
    :param security: as which user and groups the containers run.
    :param image_pull: how the nodes get the images.
    :param labels: of the pods; those of the whole job are the job's main object's, too.
    :param annotations: likewise.
    :param env_from: Secrets and ConfigMaps whose keys all become variables of the training. A variable of ``env``
        replaces one of these.
    """

    service_account: ObjectName | None = None
    security: Security | None = None
    image_pull: ImagePull | None = None
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    env_from: Annotated[tuple[VariablesFrom, ...], Field(max_length=_MOST_ITEMS)] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the Secrets that these settings refer to."""
        pulls = self.image_pull.secrets if self.image_pull else ()
        return (*pulls, *(each.secret for each in self.env_from if each.secret))
