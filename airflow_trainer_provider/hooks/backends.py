"""The backends by name. A new one is one line here."""

from __future__ import annotations

#: Backend name -> (module, class).
BACKENDS: dict[str, tuple[str, str]] = {
    "local": ("airflow_trainer_provider.local.backend", "LocalBackend"),
}
