"""Reports progress to the Trainer, as a training script would."""

import datetime
import json
import os
import ssl
import urllib.request
from pathlib import Path

status = {
    "progressPercentage": 40,
    "estimatedRemainingSeconds": 3,
    "metrics": [{"name": "loss", "value": "0.25"}],
    "lastUpdatedTime": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
}
request = urllib.request.Request(
    os.environ["KUBEFLOW_TRAINER_SERVER_URL"],
    data=json.dumps({"trainerStatus": status}).encode(),
    headers={
        "Authorization": "Bearer " + Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text(),
        "Content-Type": "application/json",
    },
)
trust = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
    print(answer.status, answer.read().decode())
