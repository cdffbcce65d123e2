"""The parameters of a form. Each is built from a field of the spec and the policies and presets for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Param

from airflow_trainer_provider.policies.amounts import amount
from airflow_trainer_provider.policies.field_path import FieldPath, values_at
from airflow_trainer_provider.policies.policy import Rule, wording
from airflow_trainer_provider.presets.library import Preset
from airflow_trainer_provider.spec.field_schema import FieldSchema, field_schema

#: The parameter, and the operator's field, by which presets are selected.
PRESETS = "presets"
#: Top-level field -> the section of the form.
_SECTIONS = {
    PRESETS: "Presets",
    **dict.fromkeys(("framework", "num_nodes", "num_workers", "num_proc_per_node", "elastic", "replicas"), "Size"),
    **dict.fromkeys(("image", "command", "args", "working_dir", "launcher", "runtime_ref"), "Program"),
    "env": "Environment",
    "resources_per_node": "Resources of a node",
    **dict.fromkeys(("scheduling", "pod", "pod_template"), "Placement and pods"),
    **dict.fromkeys(("volumes", "checkpoint"), "Volumes"),
    "tools": "Tools",
    "run_policy": "Run policy",
}
_OTHER = "Other"
_NUMBERS = frozenset({"integer", "number"})


def presets_param(known: Sequence[Preset], selected: Sequence[str]) -> Param:
    """The parameter by which presets are selected.

    :param known: all presets.
    :param selected: the names of the presets that are selected initially.
    """
    names = [preset.name for preset in known]
    described = [f"{preset.name}: {preset.description}" for preset in known if preset.description]
    return Param(
        [*selected],
        "Named parts of the job, merged in order; the fields below take precedence. " + ". ".join(described),
        type="array",
        items={"type": "string", "enum": names},
        # With examples the dialog shows a list of proposals.
        examples=names,
        title="Presets",
        section=_SECTIONS[PRESETS],
    )


def field_param(path: FieldPath, rules: Sequence[Rule], presets: Sequence[Preset], default: Any) -> Param:
    """The parameter for a field of the spec.

    :param path: the field's path.
    :param rules: the rules of policies for the field.
    :param presets: the presets that may contain the field.
    :param default: the initial value if no policy locks the field; None uses a policy's default.
    """
    found = field_schema(path)
    schema = dict(found.schema)
    for rule in rules:
        _tighten(schema, rule)
    value = _first_value(rules, default)
    if not any(rule.required or rule.locked is not None for rule in rules):
        _make_optional(schema)
    options = {"title": _title(path), "section": _SECTIONS.get(path[0], _OTHER), **schema}
    description = _description(found, rules, path, presets)
    if value is None and "null" not in _types(schema):
        # A Param without a default: the dialog requires a value.
        return Param(description=description, **options)
    return Param(_typed(schema, value), description, **options)


def _first_value(rules: Sequence[Rule], default: Any) -> Any:
    """The form's initial value: the locked value, else the author's default, else a policy's default."""
    locked = [rule.locked for rule in rules if rule.locked is not None]
    defaults = [rule.default for rule in rules if rule.default is not None]
    return next((value for value in (*locked, default, *defaults) if value is not None), None)


def _make_optional(schema: dict[str, Any]) -> None:
    schema["type"] = ["null", *_types(schema)]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]


def _tighten(schema: dict[str, Any], rule: Rule) -> None:
    """Apply a rule to a schema as far as JSON schema can express it; the policy itself checks the job later."""
    is_number = bool(_NUMBERS & {*_types(schema)})
    for kind, bound, choose in (("min", "minimum", max), ("max", "maximum", min)):
        number = amount(getattr(rule, kind))
        if is_number and number is not None:
            chosen = float(choose(number, schema.get(bound, number)))
            schema[bound] = int(chosen) if chosen.is_integer() else chosen
    choices = rule.allowed if rule.locked is None else (rule.locked,)
    if choices is not None:
        schema["enum"] = [_typed(schema, each) for each in choices]
    if rule.pattern and "string" in _types(schema):
        schema["pattern"] = f"^(?:{rule.pattern})$"


def _typed(schema: Mapping[str, Any], value: Any) -> Any:
    """A value with the type that the form uses: a quantity is text in a form."""
    types = [each for each in _types(schema) if each != "null"]
    return str(value) if types == ["string"] and isinstance(value, (int, float)) else value


def _types(schema: Mapping[str, Any]) -> list[str]:
    found = schema["type"]
    return [*found] if isinstance(found, list) else [found]


def _title(path: FieldPath) -> str:
    name = path[-1].replace("_", " ")
    if path[0] == "env":
        return path[-1]
    text = f"{name[:1].upper()}{name[1:]}"
    return (
        f"{text} of {path[1]}"
        if path[0] == "replicas" and len(path) > 2
        else text.replace("Gpu", "GPUs").replace("Cpu", "CPUs")
    )


def _description(found: FieldSchema, rules: Sequence[Rule], path: FieldPath, presets: Sequence[Preset]) -> str:
    parts = [_capital(found.description)] if found.description else []
    if found.default is not None:
        parts.append(f"Default: {found.default}.")
    for rule in rules:
        asked = [wording(kind, getattr(rule, kind)) for kind in rule.kinds if kind not in ("default", "required")]
        parts.append(f"{_capital('; '.join(asked))}. {rule.reason}" if asked else rule.reason)
    if path[-2:-1] == ("env",):
        instructions = (preset.env_instructions.get(path[-1]) for preset in presets)
        parts += dict.fromkeys(filter(None, instructions))
    held = [f"{preset.name}: {value}" for preset in presets for _, value in values_at(preset.fields, path)]
    if held:
        parts.append(f"In presets: {', '.join(held)}.")
    return " ".join(parts)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
