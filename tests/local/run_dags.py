"""Runs ``airflow dags test`` for each line of its input, a DAG and the file of its output, and answers when it is over.

Airflow takes much longer to begin than a small DAG to run: it makes its whole API server in the process.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from airflow.__main__ import main

answers = os.dup(1)
for line in sys.stdin:
    dag_id, output = line.split()
    with Path(output).open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["airflow", "dags", "test", dag_id]
    with contextlib.suppress(SystemExit):
        main()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(answers, f"{dag_id}\n".encode())
