"""Texts in a spec: command lines and single text fields."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from airflow_trainer_provider.errors import Problem
from airflow_trainer_provider.spec.values.base import all_wrong, wrong
from airflow_trainer_provider.spec.values.limits import MOST_WORD_BYTES

#: The maximum length of a path in Linux; no other single text is longer.
_MOST_TEXT = 4096
_SCALAR = "text or a number"
_RENDERED = (
    "Jinja renders a template to text: pass the value itself, e.g. task.output, or set "
    "render_template_as_native_obj=True in the DAG."
)


def as_text(value: Any, field: str = "") -> str | Problem:
    """The text of a word or of a variable's value. Numbers are accepted, since XCom passes numbers unquoted.

    :param value: a plain value.
    :param field: the path of the value below the validated field.
    :return: the text, or the problem of a value that is neither text nor a number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        fix = (
            'Write the text that the script reads, e.g. "true" or "1". Where render_template_as_native_obj=True makes '
            "a boolean of it, write it in two pairs of quotes: \"'true'\"."
        )
        return Problem(field, value, _SCALAR, fix)
    if isinstance(value, (int, float)):
        return str(value)
    if value is None:
        fix = "Set it, or leave it out. A value that was not pushed to XCom is None."
        return Problem(field, None, _SCALAR, fix)
    return Problem(field, type(value).__name__, _SCALAR, "Write it as text; a list or a mapping goes in as JSON.")


def rendered_hint(text: str) -> str | None:
    """The remedy for a list or a mapping that was rendered to text; None for any other text.

    :param text: a text that was given in place of a list or a mapping.
    """
    return _RENDERED if text.lstrip()[:1] in ("[", "(", "{") else None


def bounded(text: str | Problem, field: str, what: str, more: int = 0) -> str | Problem:
    """Check that Linux accepts a text as one argument, or as one variable together with its name.

    :param text: the text; or a problem, which is returned unchanged.
    :param field: the path of the text below the validated field.
    :param what: the use of the text: ``argument`` or ``variable``.
    :param more: the number of further bytes that count, such as those of the variable's name.
    """
    if isinstance(text, Problem):
        return text
    size = len(text.encode()) + more
    if size <= MOST_WORD_BYTES:
        return text
    allowed = f"at most {MOST_WORD_BYTES} bytes, which is the most that Linux takes for one {what}"
    return Problem(
        field, f"{size} bytes", allowed, "Put it into a file of the image or of a volume, and pass its name."
    )


def _words(value: Any) -> Any:
    allowed = 'a list of words, one per argument, e.g. ["python", "train.py"]'
    if isinstance(value, str):
        raise wrong(allowed, rendered_hint(value) or "Split it into words.", value="str")
    if not isinstance(value, (list, tuple)):
        raise wrong(allowed, "Write a list.", value=type(value).__name__)
    words = [bounded(as_text(word, f"[{at}]"), f"[{at}]", "argument") for at, word in enumerate(value)]
    return tuple(without_problems(words))


def without_problems(found: list[Any]) -> list[Any]:
    """Return the values if none of them is a problem.

    :param found: values and problems.
    :raises PydanticCustomError: there are problems; the error has all of them.
    """
    problems = [each for each in found if isinstance(each, Problem)]
    if problems:
        raise all_wrong(problems)
    return found


def _text(value: Any) -> Any:
    if isinstance(value, (float, bool)):
        fix = (
            "Write it as text, in quotes. Where render_template_as_native_obj=True makes a number of it, write it in "
            "two pairs of quotes: \"'1.10'\"."
        )
        raise wrong("text", fix)
    # Jinja's native rendering turns a text of digits into a number.
    return str(value) if isinstance(value, int) else value


#: A command line: each word may also be a number.
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
#: A single text.
Text = Annotated[str, Field(min_length=1, max_length=_MOST_TEXT), BeforeValidator(_text)]
