"""How much a drill does: a little each time, or as much as a nightly pipeline has."""

from __future__ import annotations

import os

#: Whether drills run with as many jobs, rounds and values, and with as tight bounds, as the product promises.
FULL = os.environ.get("TRAINER_TEST_SCALE") == "full"
