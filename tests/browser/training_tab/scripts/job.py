"""A training whose lines a test looks at: `job.py MODE FOLDER`, run by each replica.

report: print steps and metrics, at least ten times and until FOLDER/go is there, then write a result.
silent: the same without a report.
raise: raise.
raise-once: raise, and write a result when it runs again.
exit: end with an exit code and no traceback.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

#: What would run, or show a broken image, where a page took it for markup.
MARKUP = "<img src=x onerror=top.hacked=1><script>top.hacked=1</script>"
TOTAL_STEPS = 100_000
FEWEST_REPORTS = 10
TIMEOUT_SECONDS = 600


def report(step: int) -> None:
    """Report by both ways: a JSON line, and one for the operator's regular expression."""
    values = {
        "step": step,
        "total_steps": TOTAL_STEPS,
        "metrics": {"loss": 0.4 + 2 / (1 + step / 40), "learning_rate": 0.001},
        "checkpoint": {"step": step // 100 * 100, "path": f"/checkpoints/{MARKUP}"},
    }
    print(json.dumps({"trainer_progress": values}))
    print(f"{MARKUP} accuracy={1 - 0.5 / (1 + step / 80):.4f}")


def train(folder: Path, reports: bool) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    count = 0
    while time.monotonic() < end and (count < FEWEST_REPORTS or not (folder / "go").exists()):
        if reports:
            report(10 * count)
        count += 1
        time.sleep(0.1)


def raise_once(mark: Path, error: Exception) -> None:
    if not mark.exists():
        mark.touch()
        raise error


def write_result() -> None:
    result = {"model": f"/models/{MARKUP}", "metrics": {"loss": 0.41, f"loss of {MARKUP}": 0.5}}
    Path(os.environ["TRAINER_RESULT_PATH"]).write_text(json.dumps(result))


def main(mode: str, folder: Path) -> None:
    error = ValueError(f"a batch with {MARKUP}")
    if mode == "raise":
        raise error
    if mode == "raise-once":
        raise_once(folder / "raised", error)
    elif mode == "exit":
        print(f"the last line: {MARKUP}", flush=True)
        os._exit(3)
    else:
        train(folder, reports=mode == "report")
    if os.environ["RANK"] == "0":
        write_result()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
