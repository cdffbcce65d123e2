"""Users of an Airflow with its simple auth manager, each of whose passwords is the name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx


def user_settings(folder: Path, roles: Mapping[str, str]) -> Mapping[str, str]:
    """The options of the section ``core``.

    :param folder: where to keep the passwords.
    :param roles: name -> role.
    """
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({name: name for name in roles}))
    return {
        "simple_auth_manager_all_admins": "False",
        "simple_auth_manager_users": ",".join(f"{name}:{role}" for name, role in roles.items()),
        "simple_auth_manager_passwords_file": str(passwords),
    }


def log_in(client: httpx.Client, name: str | None = None) -> None:
    """Have a client make its requests as a user.

    :param client: of the Airflow.
    :param name: of the user; None where everybody is an admin, as without :func:`user_settings`.
    """
    path, credentials = "/auth/token", {"username": name, "password": name}
    login = client.post(path, json=credentials) if name else client.get(path)
    client.headers["Authorization"] = f"Bearer {login.raise_for_status().json()['access_token']}"
