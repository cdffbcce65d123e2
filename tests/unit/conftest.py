"""What unit tests of more than one folder begin with: a fake API server."""

from __future__ import annotations

import pytest


@pytest.fixture
def gc_delay() -> float | None:
    """How late the fake API server collects garbage, in seconds; None: when the test says so."""
    return None


@pytest.fixture
async def api(gc_delay):
    """A fake API server."""
    # Most unit tests need none, nor what it imports.
    from tests.fakes.kubernetes import FakeKubernetes

    async with FakeKubernetes(gc_delay=gc_delay) as api:
        yield api
