"""The page's modules by themselves: formats, scales, smoothing, the pause between requests."""

# The page writes dashes and minus signs as such.
# ruff: noqa: RUF001

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

MODULES = "/airflow/trainer/static"
CALL = """async ([module, name, values]) => {
  const found = (await import(module))[name](...values);
  return found === undefined ? null : found;
}"""


@pytest.fixture
def call(page, view):
    """Call a function of a module in the browser."""
    page.goto(view.page("no-job"))
    return lambda module, name, *values: page.evaluate(CALL, [f"{MODULES}/{module}.js", name, list(values)])


FORMATS = [
    ("duration", [0], "0 s"),
    ("duration", [59.6], "1 min"),
    ("duration", [518], "8 min 38 s"),
    ("duration", [600], "10 min"),
    ("duration", [3599], "1 h 00 min"),
    ("duration", [7920], "2 h 12 min"),
    ("duration", [86_399], "1 d 0 h"),
    ("duration", [273_600], "3 d 4 h"),
    ("duration", [None], "–"),
    ("age", [917], "15 min"),
    ("metric", [1.9654321], "1.965"),
    ("metric", [-0.6553], "−0.6553"),
    ("metric", [0.00023], "2.3e−4"),
    ("metric", [412_300], "412k"),
    ("metric", [3_311_534_080], "3.31G"),
    ("metric", [1e300], "1.0e300"),
    ("metric", [100], "100"),
    ("metric", [0.05], "0.05"),
    ("metric", ["-Infinity"], "−Infinity"),
    ("metric", [None], "–"),
    ("change", [-0.0084], "−0.8 %"),
    ("change", [0.05], "+5.0 %"),
    ("change", [0], "0.0 %"),
    ("step", [6560], "6,560"),
    ("count", [1, "step"], "1 step"),
    ("count", [0, "step"], "0 steps"),
    ("bytes", [128 * 2**30], "128 GiB"),
    ("bytes", [61.2 * 2**30], "61.2 GiB"),
    ("bytes", [50 * 2**20], "50 MiB"),
    ("clock", ["2026-11-20T14:06:30Z", "2026-11-21T10:00:00Z"], "20 Nov 14:06"),
    ("clock", [None, "2026-11-21T10:00:00Z"], "–"),
    ("clockRange", ["2026-11-21T16:33:00Z", "2026-11-21T16:33:30Z", "2026-11-21T10:00:00Z"], "16:33"),
    ("clockRange", ["2026-11-21T23:30:00Z", "2026-11-22T00:30:00Z", "2026-11-21T10:00:00Z"], "23:30 – 22 Nov 00:30"),
    ("fromNow", ["2026-11-21T09:00:00Z", "2026-11-21T10:30:00Z", "2026-11-21T10:00:00Z"], "within 30 min"),
    ("fromNow", ["2026-11-21T09:00:00Z", None, "2026-11-21T10:00:00Z"], "any moment"),
    ("runLabel", ["manual_2026"], "manual_2026"),
]


def test_numbers_durations_and_times_have_one_format(call):
    found = [(name, values, call("lib/format", name, *values)) for name, values, _ in FORMATS]

    assert found == FORMATS


def test_ticks_are_round_and_differ(call):
    assert call("chart/scale", "ticks", 1.7, 2.9, 5) == [1.75, 2, 2.25, 2.5, 2.75]
    assert call("chart/scale", "logTicks", 0.9, 1500) == [1, 10, 100, 1000]
    assert [call("chart/scale", "tickText", value, [1.75, 2]) for value in (1.75, 2)] == ["1.75", "2.00"]
    assert call("chart/scale", "tickText", 15_000, [0, 15_000]) == "15k"
    assert call("chart/scale", "timeTicks", 0, 7000, 4) == [0, 1800, 3600, 5400]


def test_smoothing_keeps_gaps_and_does_not_lag(call):
    falling = [float(100 - index) for index in range(100)]

    smoothed = call("chart/smooth", "smooth", falling)

    assert smoothed[:99] == pytest.approx(falling[:99])
    assert call("chart/smooth", "smooth", [1.0, None, 3.0])[1] is None


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        ({"ended": False, "failures": 0, "active": True}, 5),
        ({"ended": False, "failures": 0, "active": False}, 30),
        ({"ended": True, "failures": 0, "active": True}, None),
        ({"ended": False, "failures": 1, "active": True}, 30),
        ({"ended": False, "failures": 3, "active": True}, 120),
        ({"ended": True, "failures": 9, "active": False}, 300),
    ],
)
def test_the_pause_between_requests_grows_with_failures(call, state, seconds):
    assert call("lib/client", "pause", state) == seconds


READ_ALL = """async (addresses) => {
  const { Client } = await import("/airflow/trainer/static/lib/client.js");
  const client = new Client(), known = [];
  client.send = async (address, headers) => {
    known.push("If-None-Match" in headers);
    return new Response("{}", { headers: { ETag: '"1"' } });
  };
  for (const address of addresses) await client.get(address);
  return [client.kept.size, known];
}"""


def test_the_last_answers_are_kept_and_no_others(page, view):
    page.goto(view.page("no-job"))
    read = ["/first", *(f"/{number}" for number in range(18)), "/first", *(f"/{number}" for number in range(18, 23))]

    size, known = page.evaluate(READ_ALL, [*read, "/first", "/0"])

    assert size == 20
    assert [address for address, is_known in zip([*read, "/first", "/0"], known, strict=True) if is_known] == [
        "/first",
        "/first",
    ]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "", "x"])
def test_only_web_addresses_are_links(call, address):
    assert call("lib/frame", "safeHref", address) is None
