"""The limits of what a job may request, with the reason for each."""

from __future__ import annotations

#: Replicas of a job, and processes of a node: Kubernetes supports clusters of up to 5,000 nodes.
#: https://kubernetes.io/docs/setup/best-practices/cluster-large/
MOST_REPLICAS = 10_000
#: Overrides of a group. Each replica with an override may need a separate Kubernetes object.
MOST_OVERRIDES = 256
#: One argument, or one variable with its name: Linux allows 32 pages, the terminating NUL included (MAX_ARG_STRLEN).
MOST_WORD_BYTES = 32 * 4096 - 1
#: One object as the API server stores it: etcd refuses requests of more than 1.5 MiB (``--max-request-bytes``). 32 KiB
#: are reserved for what the cluster adds: defaults, status, and the fields of other managers.
MOST_OBJECT_BYTES = (1536 - 32) * 1024
#: One field of a spec: twice the size of an object, as a manifest is longer in YAML than in JSON.
MOST_FIELD_BYTES = 2 * MOST_OBJECT_BYTES
#: The data of a ConfigMap or a Secret: the API server refuses more.
MOST_DATA_BYTES = 1024 * 1024
#: The runtime of a TrainJob: since 2.3 Trainer keeps a copy of it in a ConfigMap.
MOST_RUNTIME_BYTES = MOST_DATA_BYTES - 16 * 1024
#: The objects of a job: each of them takes a request.
MOST_OBJECTS = 1_000
#: All objects of a job as JSON: they are sent one by one, and the task's log shows all of them.
MOST_JOB_BYTES = 8 * 1024 * 1024
#: Values within one field of a spec, and how deep they may be nested.
MOST_VALUES = 50_000
MOST_LEVELS = 50
#: Seconds, and restarts, that Kubernetes keeps as 32-bit integers.
MOST_INT32 = 2**31 - 1
