"""A form for training jobs in Airflow's own trigger dialog: Params made of the spec, the presets and the policies."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The fields of a form whose author names none.
USUAL_FIELDS = (
    "num_nodes",
    "resources_per_node.cpu",
    "resources_per_node.memory",
    "resources_per_node.gpu",
    "run_policy.active_deadline_seconds",
    "run_policy.backoff_limit",
)


class FormField:
    """A field of an operator whose value comes from the form's parameters. Airflow resolves it as a template.

    :param names: path within the field -> the name of the parameter with the value. An empty path is the whole field.
    """

    def __init__(self, names: Mapping[tuple[str, ...], str]) -> None:
        self._names = dict(names)

    def resolve(self, context: Context) -> Any:
        """The field's value without the parameters that the user left empty; None if all of them are.

        :param context: the task's context, with the run's parameters.
        """
        params = context["params"]
        found: dict[str, Any] = {}
        for place, name in self._names.items():
            value = params.get(name)
            if value in (None, "", []):
                continue
            if not place:
                return value
            below = found
            for part in place[:-1]:
                below = below.setdefault(part, {})
            below[place[-1]] = value
        return found or None

    def __repr__(self) -> str:
        return f"<from the form: {', '.join(self._names.values())}>"


class TrainingParams(dict[str, Param]):
    """A DAG's ``params``, and the fields of an operator that are filled from them.

    :param params: name -> parameter.
    :param places: name -> path of the field.
    """

    def __init__(self, params: Mapping[str, Param], places: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(params)
        self._places = dict(places)

    @property
    def fields(self) -> dict[str, FormField]:
        """Keyword arguments for an operator: ``PyTorchJobOperator(task_id="train", **params.fields)``."""
        names: dict[str, dict[tuple[str, ...], str]] = {}
        for name, path in self._places.items():
            names.setdefault(path[0], {})[path[1:]] = name
        return {field: FormField(each) for field, each in names.items()}


def training_params(
    *fields: str,
    framework: str | None = None,
    presets: Sequence[str] | None = (),
    defaults: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    dag_id: str = "",
    tags: Collection[str] = (),
) -> TrainingParams:
    """Params that Airflow's trigger dialog shows as a form for training jobs.

    The spec defines each field's type, bounds and help text. Policies tighten the bounds and add choices, defaults and
    reasons; the form omits a field that a policy forbids. A field that the user leaves empty takes its value from a
    preset, or else the spec's default.

    :param fields: paths of fields of the spec, such as ``num_nodes``, ``resources_per_node.gpu`` or ``env.EPOCHS``;
        without any, the form has the fields of ``USUAL_FIELDS``.
    :param framework: the framework of the jobs; it selects policies.
    :param presets: the presets that the form preselects if ``[trainer] presets_folder`` names a folder; None omits the
        field for presets.
    :param defaults: field -> its initial value in the form.
    :param namespace: the namespace of the jobs; it selects policies.
    :param dag_id: the DAG's ID; it selects policies.
    :param tags: the DAG's tags; they select policies.
    :return: the params for ``DAG(params=...)``; their ``fields`` are keyword arguments of the operator.
    :raises SpecError: the spec does not have a field, or a preset or a policy is invalid.
    """
    from airflow_trainer_provider.hooks.settings import load_settings
    from airflow_trainer_provider.operators.form_params import PRESETS, field_param, presets_param
    from airflow_trainer_provider.policies.field_path import parse_path
    from airflow_trainer_provider.policies.library import load_policies, policies_for
    from airflow_trainer_provider.policies.policy import Subject
    from airflow_trainer_provider.presets.library import find_presets, load_presets

    settings = load_settings()
    subject = Subject(namespace, dag_id, tags, framework)
    chosen = policies_for(load_policies(settings.policies_folder), subject)
    known = load_presets(settings.presets_folder, [*find_presets(settings.presets_folder)])
    params: dict[str, Param] = {}
    places: dict[str, tuple[str, ...]] = {}
    if known and presets is not None:
        params[PRESETS], places[PRESETS] = presets_param(known, presets), (PRESETS,)
    for field in fields or USUAL_FIELDS:
        path = parse_path(field)
        rules = [rule for each in chosen for rule in each.policy.rules if rule.path == path]
        if any(rule.forbidden for rule in rules):
            continue
        name = re.sub(r"\W", "_", "__".join(path))
        # A form without the field for presets does not show the presets' values either.
        params[name] = field_param(path, rules, known if presets is not None else [], (defaults or {}).get(field))
        places[name] = path
    return TrainingParams(params, places)
