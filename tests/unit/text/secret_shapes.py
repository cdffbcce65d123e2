"""The shapes in which secrets are passed to a job, and values that only resemble them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

SECRET = "S3cret7Kx92value"
_ENCODED = "dXNlcjpTM2NyZXQ3"
_KUBECONFIG = f"{{apiVersion: v1, kind: Config, users: [{{name: u, user: {{token: {SECRET}}}}}]}}"
_KUBECONFIG_OBJECT = {
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://k8s.example:6443"}}],
    "users": [{"name": "u", "user": {"token": SECRET}}],
}
_KUBECONFIG_BASE64 = base64.b64encode(json.dumps(_KUBECONFIG_OBJECT).encode()).decode()
_KUBECONFIG_LINES = base64.encodebytes(json.dumps(_KUBECONFIG_OBJECT, indent=4).encode()).decode().strip()
_JWT = f"eyJhbGciOiJIUzI1NiJ9.{SECRET}.sig"


@dataclass(frozen=True)
class Shape:
    """A secret in a field of an operator.

    :param name: of the shape.
    :param fields: of the operator.
    :param shown: the same fields, masked.
    :param secret: the secret.
    """

    name: str
    fields: dict[str, Any]
    shown: dict[str, Any]
    secret: str = SECRET

    def __str__(self) -> str:
        return self.name


def _env(name: str, value: str, shown: str = "***", secret: str = SECRET) -> Shape:
    return Shape(f"env {name}", {"env": {name: value}}, {"env": {name: shown}}, secret)


def _args(name: str, args: list[Any], shown: list[Any], secret: str = SECRET) -> Shape:
    return Shape(f"args {name}", {"args": args}, {"args": shown}, secret)


def _pods(name: str, container: dict[str, Any], shown: dict[str, Any], kind: str = "containers") -> Shape:
    def fields(each: dict[str, Any]) -> dict[str, Any]:
        is_training = each["name"] == "train" or kind != "containers"
        return {"pod_template": {"spec": {kind: [each] if is_training else [{"name": "train"}, each]}}}

    return Shape(f"pod_template {name}", fields(container), fields(shown))


def _pem(what: str, body: str) -> str:
    return f"-----BEGIN {what}-----{body}-----END {what}-----"


SHAPES = [
    *(
        _env(name, SECRET)
        for name in (
            "DB_PASSWORD",
            "DB_PWD",
            "DB_CREDS",
            "REGISTRY_CRED",
            "PGPASSWORD",
            "MYSQL_PASS",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "HF_CREDENTIAL",
            "ACCESS_TOKENS",
            "WANDB_KEY",
            "WANDB_API_KEY",
            "OAUTH_CLIENT_SECRET",
            "SSH_PASSPHRASE",
            "apiKey",
            "ENCRYPTION_KEY",
            "GITHUB_PAT",
            "JWT",
            "PASSWORD_2",
        )
    ),
    _env("AUTH", f"Bearer {SECRET}", "Bearer ***"),
    _env("AUTHORIZATION", f"Basic {_ENCODED}", "Basic ***", _ENCODED),
    _env("DATABASE_URL", f"postgres://u:{SECRET}@db/x", "postgres://u:***@db/x"),
    _env("REDIS", f"redis://:{SECRET}@h:6379/0", "redis://:***@h:6379/0"),
    _env("MONGO", f"mongodb+srv://u:{SECRET}@h/?w=1", "mongodb+srv://u:***@h/?w=1"),
    _env("URL_AT", f"amqp://u:p@{SECRET}@h/v", "amqp://u:***@h/v", f"p@{SECRET}"),
    _env("URL_SLASH", f"mysql://u:p/{SECRET}@h/v", "mysql://u:***@h/v", f"p/{SECRET}"),
    _env("GIT_URL", f"https://x-access-token:{SECRET}@git.example/r", "https://x-access-token:***@git.example/r"),
    _env("SENTRY", f"https://{SECRET}@sentry.example/1", "https://***@sentry.example/1"),
    _env("QUERY", f"https://x/y?api_key={SECRET}&page=1", "https://x/y?api_key=***&page=1"),
    _env("QUERY_2", f"https://x/y?page=1&access_token={SECRET}", "https://x/y?page=1&access_token=***"),
    _env("HTTPS_PROXY", f"http://user:{SECRET}@proxy:3128", "http://user:***@proxy:3128"),
    _env(
        "JSON", json.dumps({"db": {"password": SECRET, "port": 1}}), json.dumps({"db": {"password": "***", "port": 1}})
    ),
    _env(
        "JSON_LIST",
        json.dumps([{"name": "A_TOKEN", "value": SECRET}]),
        json.dumps([{"name": "A_TOKEN", "value": "***"}]),
    ),
    _env(
        "JSON_IN_JSON",
        json.dumps({"a": json.dumps({"token": SECRET})}),
        json.dumps({"a": json.dumps({"token": "***"})}),
    ),
    _env("DICT", f"x = {{'password': '{SECRET}', 'a': 1}}", "x = {'password': '***', 'a': 1}"),
    _env("YAML", f"db:\n  password: {SECRET}\n  host: h", "db:\n  password: ***\n  host: h"),
    _env("FLOW", f"{{password: {SECRET}, host: h}}", "{password: '***', host: h}"),
    _env("VARIABLES", f"- name: A_TOKEN\n  value: {SECRET}", "- name: A_TOKEN\n  value: ***"),
    _env("INI", f"[db]\npassword = {SECRET}\nhost = h", "[db]\npassword = ***\nhost = h"),
    _env("BLOCK", f"db:\n  password: |\n    {SECRET}\n  host: h", "db:\n  password: |\n    ***\n  host: h"),
    _env("FOLDED", f"- token: >-\n    {SECRET}\n    more", "- token: >-\n    ***", f"{SECRET}\n    more"),
    _env("LIST", f"run(['--token', '{SECRET}', '--lr', '0.1'])", "run(['--token', '***', '--lr', '0.1'])"),
    _env("ODBC", f"Driver=x;UID=u;PWD={SECRET};Port=1", "Driver=x;UID=u;PWD=***;Port=1"),
    _env("DSN", f"host=h user=u password={SECRET} dbname=d", "host=h user=u password=*** dbname=d"),
    _env("BLOB", f"AccountName=a;AccountKey={SECRET};Suffix=s", "AccountName=a;AccountKey=***;Suffix=s"),
    _env(
        "KUBECONFIG_TEXT",
        f"apiVersion: v1\nusers:\n- name: u\n  user:\n    token: {SECRET}",
        "apiVersion: v1\nusers:\n- name: u\n  user:\n    token: '***'\n",
    ),
    _env(
        "DOCKER",
        json.dumps({"auths": {"r": {"auth": _ENCODED}}}),
        json.dumps({"auths": {"r": {"auth": "***"}}}),
        _ENCODED,
    ),
    _env("NETRC", f"machine h login u password {SECRET}", "machine h login u password ***"),
    _env("ORACLE", f"scott:{SECRET}@db:1521/x", "scott:***@db:1521/x"),
    _env("PEM", _pem("RSA PRIVATE KEY", f"\n{SECRET}\n"), _pem("RSA PRIVATE KEY", "***")),
    _env("PEM_LINES", _pem("PRIVATE KEY", f"\\n{SECRET}\\n"), _pem("PRIVATE KEY", "***")),
    *(
        _env(f"{name}_X", f"{prefix}{SECRET}", "***", f"{prefix}{SECRET}")
        for name, prefix in (
            ("GITHUB", "ghp_"),
            ("GITHUB_FINE", "github_pat_"),
            ("HUB", "hf_"),
            ("OPENAI", "sk-proj-"),
            ("SLACK", "xoxb-"),
            ("GITLAB", "glpat-"),
            ("NGC", "nvapi-"),
        )
    ),
    _env("AWS_X", "AKIAIOSFODNN7EXAMPLE", "***", "AKIAIOSFODNN7EXAMPLE"),
    _env("ID_X", _JWT, "***", _JWT),
    _env(
        "HOOK",
        f"https://hooks.slack.com/services/T1/B2/{SECRET}",
        "https://hooks.slack.com/services/***",
        f"T1/B2/{SECRET}",
    ),
    _args("equals", [f"--password={SECRET}", "--lr=0.1"], ["--password=***", "--lr=0.1"]),
    _args("pair", ["--token", SECRET, "--epochs", "3"], ["--token", "***", "--epochs", "3"]),
    _args("number", ["--token", 9876543210123456, 3], ["--token", "***", 3], "9876543210123456"),
    _args("option of an option", [f"--env=HF_TOKEN={SECRET}"], ["--env=HF_TOKEN=***"]),
    _args("one dash", ["-token", SECRET], ["-token", "***"]),
    _args("dotted", [f"+db.password={SECRET}"], ["+db.password=***"]),
    _args("spaces", [f"--password={SECRET} and more"], ["--password=***"], f"{SECRET} and more"),
    _args("user", ["-u", f"user:{SECRET}"], ["-u", "user:***"]),
    _args("json", ["--config", f'{{"api_key": "{SECRET}"}}'], ["--config", '{"api_key": "***"}']),
    _args("address", [f"--url=postgres://u:{SECRET}@db"], ["--url=postgres://u:***@db"]),
    _args(
        "shell",
        ["sh", "-c", f"export DB_PASSWORD={SECRET}; train --token {SECRET} --epochs 3"],
        ["sh", "-c", "export DB_PASSWORD=***; train --token *** --epochs 3"],
    ),
    _args(
        "shell quotes",
        ["sh", "-c", f"run -e 'DB_PASSWORD={SECRET} x' i"],
        ["sh", "-c", "run -e 'DB_PASSWORD=***' i"],
        f"{SECRET} x",
    ),
    _args(
        "headers",
        ["sh", "-c", f"curl -H 'Authorization: Bearer {SECRET}' -H 'X-Api-Key: {SECRET}' x"],
        ["sh", "-c", "curl -H 'Authorization: Bearer ***' -H 'X-Api-Key: ***' x"],
    ),
    _env("TIGHT", f"api_key:{SECRET}", "api_key:***"),
    _env("TIGHT_QUOTED", f'api_key:"{SECRET}"', 'api_key:"***"'),
    _env("TIGHT_LIST", f"api_key:{SECRET},region=eu", "api_key:***,region=eu"),
    _env("TIGHT_LINE", f"a: 1\nclient-key-data:{SECRET}", "a: 1\nclient-key-data:***"),
    _env("TIGHT_FLOW", f"{{user:u,password:{SECRET},lr:0.1}}", "{user:u,password:***,lr:0.1}"),
    _env("TIGHT_SECTION", f"config:token:{SECRET},lr:0.1", "config:token:***,lr:0.1"),
    _env("FLOW", f"{{user: {{name: u, password: {SECRET}}}, lr: 0.1}}", "{user: {name: u, password: '***'}, lr: 0.1}"),
    _env("KUBECONFIG_FLOW", _KUBECONFIG, _KUBECONFIG.replace(SECRET, "'***'")),
    _env("FLOW_OBJECT", f"{{a: 1, password: {{value: {SECRET}}}}}", "{a: 1, password: {value: '***'}}"),
    *(
        _env(f"CONFIG_BASE64_{number}", text, shown, secret)
        for number, (text, shown, secret) in enumerate(
            (
                (_KUBECONFIG_BASE64, "***", _KUBECONFIG_BASE64),
                (f"echo {_KUBECONFIG_BASE64} | base64 -d", "echo *** | base64 -d", _KUBECONFIG_BASE64),
                (_KUBECONFIG_LINES, "***", _KUBECONFIG_LINES.split()[-1]),
                (_KUBECONFIG_LINES.replace("\n", "\\n"), "***", _KUBECONFIG_LINES.split()[-1]),
            )
        )
    ),
    _args("tight", ["sh", "-c", f"curl -H X-Api-Key:{SECRET} x"], ["sh", "-c", "curl -H X-Api-Key:*** x"]),
    _args(
        "shell lines",
        ["sh", "-c", f"train --token \\\n  {SECRET} --lr 1"],
        ["sh", "-c", "train --token \\\n  *** --lr 1"],
    ),
    _args("docker", ["sh", "-c", f"docker login -u me -p {SECRET} r"], ["sh", "-c", "docker login -u me -p *** r"]),
    _args("sshpass", ["sh", "-c", f"sshpass -p '{SECRET}' ssh h"], ["sh", "-c", "sshpass -p '***' ssh h"]),
    _args("mysql", ["sh", "-c", f"mysql -h db -p{SECRET} x"], ["sh", "-c", "mysql -h db -p*** x"]),
    _args("shell user", ["sh", "-c", f"curl -u me:{SECRET} http://x"], ["sh", "-c", "curl -u me:*** http://x"]),
    Shape("command", {"command": ["train", "--token", SECRET]}, {"command": ["train", "--token", "***"]}),
    Shape(
        "replicas env",
        {"replicas": {"worker": {"env": {"DB_PASSWORD": SECRET}}}},
        {"replicas": {"worker": {"env": {"DB_PASSWORD": "***"}}}},
    ),
    Shape(
        "replicas args",
        {"replicas": {"worker": {"args": ["--token", SECRET]}}},
        {"replicas": {"worker": {"args": ["--token", "***"]}}},
    ),
    Shape(
        "replicas overrides",
        {"replicas": {"worker": {"overrides": [{"index": 0, "env": {"A_TOKEN": SECRET}}]}}},
        {"replicas": {"worker": {"overrides": [{"index": 0, "env": {"A_TOKEN": "***"}}]}}},
    ),
    _pods(
        "variable",
        {"name": "train", "env": [{"name": "A_TOKEN", "value": SECRET}]},
        {"name": "train", "env": [{"name": "A_TOKEN", "value": "***"}]},
    ),
    _pods(
        "sidecar",
        {"name": "side", "image": "i", "env": [{"name": "A_TOKEN", "value": SECRET}]},
        {"name": "side", "image": "i", "env": [{"name": "A_TOKEN", "value": "***"}]},
    ),
    _pods(
        "sidecar args",
        {"name": "side", "image": "i", "args": [f"--token={SECRET}"]},
        {"name": "side", "image": "i", "args": ["--token=***"]},
    ),
    _pods(
        "init command",
        {"name": "init", "image": "i", "command": ["sh", "-c", f"login --password {SECRET}"]},
        {"name": "init", "image": "i", "command": ["sh", "-c", "login --password ***"]},
        "initContainers",
    ),
]

#: Values that must not be masked.
INNOCENT: list[Any] = [
    ["--tokenizer", "gpt2"],
    ["--max_tokens=512"],
    ["--num-tokens", "100"],
    ["--password=$(DB_PASSWORD)"],
    ["--token=$HF_TOKEN"],
    ["--password", "--verbose"],
    ["--image-key", "jpg"],
    {"forward_pass": "fused"},
    ["--max-tokens", 512],
    ["--token", True],
    "parser.add_argument('--token', '-t'); parser.add_argument('--password', type=str)",
    "mysql -h db -p 3306 -P 3306; cd /app; docker run -p 8080:80 image; ssh -p 22 host",
    "tokenizer: |\n  a b\nhost: h",
    "--opt=pad_token=eos cd /app;PWD=/opt/app",
    ["--primary_key=id"],
    ["--key", "id"],
    ["--auth=ldap"],
    ["python", "-u", "train.py"],
    ["sh", "-c", "HF_TOKEN=$(cat /run/token) python train.py"],
    ["python", "-c", "hub.login(token=os.environ['HF_TOKEN']); push(token=args.token)"],
    {"TOKENIZERS_PARALLELISM": "false"},
    {"MASTER_PORT": "29500"},
    {"KEY": "value"},
    {"PWD": "/app"},
    {"include/credentials.py": "import os\n\nMODELS = ['resnet50-large']\n", "dag/token.py": "def f(): ...\n"},
    {"TOKEN_FILE": "/var/run/token"},
    {"GOOGLE_APPLICATION_CREDENTIALS": "/secrets/gcp/key.json"},
    {"HF_TOKEN": "${HUB_TOKEN}"},
    {"HF_TOKEN": ""},
    {"SSH_AUTH_SOCK": "/tmp/agent"},
    {"AUTH": "kerberos"},
    {"AUTH_TYPE": "basic"},
    {"author": "A. Token"},
    {"pad_token": "<pad>"},
    {"eos_token_id": 2},
    {"tokens": "512"},
    {"metrics": {"token_accuracy": 0.9}},
    {"topologyKey": "kubernetes.io/hostname"},
    {"automountServiceAccountToken": False},
    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    {"HF_TOKEN": {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}},
    {"imagePullSecrets": [{"name": "registry"}]},
    {"envFrom": [{"secretRef": {"name": "hub", "optional": True}}]},
    {"secret": {"secretName": "hub-token", "defaultMode": 420, "items": [{"key": "token", "path": "tok"}]}},
    {"serviceAccountToken": {"audience": "a", "expirationSeconds": 3600, "path": "token"}},
    {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]},
    "registry.example:5000/train:1.0@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "http://host:8080/path@v1 http://[::1]:80/x@y https://user@host/x",
    "git@github.com:org/repo.git mailto:bob@example.com",
    "s3://bucket/key=1/part-0",
    "pip install hf_transfer==0.1.4 sk-learn-pipeline-2; scikit-learn task-0123456789-1 glass-bottle-classifier-2",
    "docker run -u 1000:1000 image",
    "the password is checked by the server; Basic authentication, a bearer token",
    "Unexpected token: } at 12, tokens per second: 1234",
    "SELECT key FROM t WHERE token IS NULL",
    "python -c 'tok = tokenizer.encode(x); print(tok)'",
    base64.b64encode(b"the clusters of this k-means, and its centres " * 4).decode(),
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
    "{not json",
    "registry.example/team/api-token:1.2.3 auth-key:latest token:8080",
    "registry.example/team/api-token:9f8e7d6c5b4a3f2e1d0c",
    "auth:1.2.3-a1b2c3d auth:v2.1.0-rc1 token:10.0.0.12:8443 redis-auth:6379/db0",
    "last-auth:2024-01-01T12:00:00Z -v my-secret:/etc/X2:ro",
    "https://host:8443/token:abc s3://bucket/key:1",
]
