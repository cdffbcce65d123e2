"""The handle with which any process can find a submitted job again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from airflow_trainer_provider.errors import Problem, SpecError
from airflow_trainer_provider.spec.values.names import ObjectName
from airflow_trainer_provider.spec.values.plain import plain


class JobHandle(BaseModel):
    """A reference to a submitted job. It holds no secret, and goes into XCom as it is.

    :param name: the job's name.
    :param uid: distinguishes it from any other job that ever had this name.
    :param backend: the backend that it runs on.
    :param framework: its framework.
    :param leader: the replica that holds rank 0.
    :param owner: the try of the task that waits for it; only the owner may end it.
    :param location: where the backend finds it: kind, namespace and connection on a cluster, and the root folder of the
        local backend.
    :param tools: the addresses of its tools: name -> address.
    :param expires: whether the cluster itself deletes the job some time after its end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ObjectName
    uid: str
    backend: str
    framework: str
    leader: str
    owner: int
    location: str
    tools: Mapping[str, str] = Field(default_factory=dict)
    expires: bool = False

    @classmethod
    def parse(cls, value: Any, field: str = "job") -> JobHandle:
        """Read a handle as it came out of XCom.

        :param value: a handle, its mapping, or that mapping as JSON text.
        :param field: what to call it in an error.
        :raises SpecError: the value is none of these.
        """
        # isinstance() would read attributes of the object, which may raise any exception.
        if issubclass(type(value), cls):
            handle: JobHandle = value
            return handle
        try:
            given = plain(field, value)
            return cls.model_validate(json.loads(given) if isinstance(given, str) else given)
        except (ValueError, RecursionError, SpecError):
            allowed = "the handle that an operator pushed to XCom under the key 'job'"
            fix = "Pass train.output['job'], or '{{ ti.xcom_pull(\"train\", key=\"job\") | tojson }}' in a template."
            raise SpecError([Problem(field, type(value).__name__, allowed, fix)]) from None

    def to_xcom(self) -> Mapping[str, Any]:
        """As JSON values."""
        # Empty fields are left out, because a triggerer of an earlier version does not know them.
        return self.model_dump(mode="json", exclude={name for name in ("tools", "expires") if not getattr(self, name)})
