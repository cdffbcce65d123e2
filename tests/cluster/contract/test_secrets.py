"""The contract's part of this name, on the real cluster."""

from __future__ import annotations

from tests.contract.test_secrets import *  # noqa: F403
