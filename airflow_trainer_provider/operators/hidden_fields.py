"""Hides secrets in the templated fields of operators and sensors, so that Airflow does not store them.

Airflow stores each rendered field. It masks values by their key, and newer versions also values that are registered
with the secrets masker. Neither covers options in a list of arguments or variables deep in a pod template, and Airflow
3.1.0 does not apply the masker at all. So a field with a secret is replaced by a value of the same kind that serializes
to its masked copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_trainer_provider.operators.fields import valid_names
from airflow_trainer_provider.text.hidden_values import given, hidden

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context


_PACKAGE = "airflow_trainer_provider."


class HidesSecrets(BaseOperator):
    """An operator, or a sensor, whose templated fields are stored without secrets that were pasted into them."""

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Both mapped and unmapped tasks call this method to render their fields.
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            # The fields that a user's subclass adds are left unchanged.
            own = next(each for each in type(self).__mro__ if each.__module__.startswith(_PACKAGE))
            hide_secrets(self, own.template_fields, (self.dag_id, self.task_id))  # type: ignore[attr-defined]


def hide_secrets(operator: Any, fields: Collection[str], plain: Collection[str], other: Any = None) -> None:
    """Hide the secrets in an operator's rendered fields, and register them with Airflow's masker for the task's log.

    Valid names stay readable, even a namespace that resembles a token: the listener that ends the job of a killed task
    reads the job's place from the stored fields. Any other value in a field for a name is refused before a job starts.

    :param operator: the operator.
    :param fields: the names of the fields that can contain a secret.
    :param plain: further names that stay readable in what Airflow stores: a secret that is part of such a name is not
        registered.
    :param other: further values whose secrets are registered: fields of the job that the operator's fields do not
        contain, such as those from presets.
    """
    from airflow.sdk.log import mask_secret

    from airflow_trainer_provider.text.mask import distinct_parts
    from airflow_trainer_provider.text.redaction import secrets_in

    names = valid_names(operator, fields)
    values = {field: given(getattr(operator, field)) for field in fields if field not in names}
    secrets = secrets_in(other).union(*(secrets_in(value, field) for field, value in values.items()))
    known = {part for secret in secrets for part in distinct_parts(secret)}
    known = {secret for secret in known if not any(secret in name for name in (*plain, *names.values()))}
    if known:
        mask_secret([*sorted(known)])
    for field, value in values.items():
        setattr(operator, field, hidden(value, field))
