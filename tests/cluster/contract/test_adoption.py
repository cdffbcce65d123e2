"""The contract's part of this name, on the real cluster."""

from __future__ import annotations

from tests.contract.test_adoption import *  # noqa: F403
