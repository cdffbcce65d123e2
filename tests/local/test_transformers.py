"""Hugging Face's Trainer in a function reports its progress with no line for that, as its own callback does it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_trainer_provider.functions.code import code_of
from airflow_trainer_provider.job.follow import follow
from airflow_trainer_provider.job.progress.reporter import Reporter
from airflow_trainer_provider.job.result import RESULT_LIMIT_BYTES
from airflow_trainer_provider.job.status import JobPhase
from airflow_trainer_provider.spec.running.function import FUNCTION_COMMAND
from tests.local.jobs import Jobs

pytestmark = [pytest.mark.local, pytest.mark.heavy]

#: Of 0.2 seconds each: the callback reports every five seconds at most.
STEPS = 30


def train(steps: int) -> dict[str, float]:
    """Train a tiny model, made on the spot, with nothing in it for progress."""
    import time

    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, row: int) -> dict[str, Any]:
            time.sleep(0.2)
            return {"input_ids": torch.tensor([row % 7, 1, 2]), "labels": row % 2}

    config = BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=2
    )
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=steps,
        per_device_train_batch_size=1,
        logging_steps=5,
        save_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Rows())
    return {"loss": trainer.train().training_loss}


async def test_a_trainer_of_hugging_face_shows_its_progress(jobs: Jobs) -> None:
    files = code_of(train, None, ()).call([STEPS], {}, RESULT_LIMIT_BYTES)
    running = await jobs.start(
        {
            "framework": "pytorch",
            "command": list(FUNCTION_COMMAND),
            "function": {"name": "train", "files": files},
        }
    )
    progress: list[Any] = []

    async def write(read: Any, is_last: bool) -> None:
        progress.append(read().get("progress"))

    async def load(is_last: bool) -> dict[str, Any]:
        return {}

    status = await follow(
        running.backend,
        running.handle,
        emit=running.lines.append,
        reader="test",
        deadline=None,
        reporter=Reporter(running.handle, {}, write, load),
    )

    assert status.phase is JobPhase.SUCCEEDED, "\n".join(running.lines)
    found = next(each for each in reversed(progress) if each)
    # The end is reported as 100 %, without a step.
    assert (found["total_steps"], found["percent"]) == (STEPS, 100), "\n".join(running.lines)
    assert 0 < found["step"] <= STEPS
    assert {"loss", "learning_rate", "train_loss"} <= set(found["metrics"])
    assert found["history"]["loss"][0]["step"][0] > 0
