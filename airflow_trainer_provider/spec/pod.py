"""Settings of a job's pods: account, user and groups, image pulls, labels, and objects whose keys become variables."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from airflow_trainer_provider.spec.values.base import SpecModel, Whole, wrong
from airflow_trainer_provider.spec.values.labels import Annotations, Labels
from airflow_trainer_provider.spec.values.limits import MOST_INT32
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.variables import variable_problem
from airflow_trainer_provider.spec.values.words import Text

#: Kubernetes accepts at most this many supplemental groups; Linux allows many more.
_MOST_ITEMS = 100
#: The numeric ID of a user or a group.
Id = Annotated[Whole, Field(ge=0, le=MOST_INT32)]


class Security(SpecModel):
    """The user and groups that the containers run as. An unset field keeps the image's setting.

    :param run_as_user: the numeric ID of the user.
    :param run_as_group: the numeric ID of the user's primary group.
    :param supplemental_groups: numeric IDs of further groups of the user.
    :param fs_group: the numeric ID of the group that owns the volumes, for volumes that support it.
    """

    run_as_user: Id | None = None
    run_as_group: Id | None = None
    supplemental_groups: Annotated[tuple[Id, ...], Field(max_length=_MOST_ITEMS)] = ()
    fs_group: Id | None = None


class ImagePull(SpecModel):
    """How the nodes get the images.

    :param policy: when the training's image is pulled; None uses Kubernetes' default, which depends on the image's tag.
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
    """A Secret or a ConfigMap whose keys all become variables. Exactly one of the two is set.

    :param secret: the name of a Secret.
    :param config_map: the name of a ConfigMap.
    :param prefix: a prefix for the names of the variables, before the key.
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

    :param service_account: the ServiceAccount that the pods run under, with a token for it mounted. If unset, the pods
        run under the namespace's default ServiceAccount, without a token.
    :param security: the user and groups that the containers run as.
    :param image_pull: how the nodes get the images.
    :param labels: labels of the pods; the job's main object also gets the labels that are set for the whole job.
    :param annotations: annotations, which apply to the same objects as ``labels``.
    :param env_from: Secrets and ConfigMaps whose keys all become variables of the training. A variable in ``env`` takes
        precedence over one with the same name from here.
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
