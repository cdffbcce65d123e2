"""Decides from a name whether its value is a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Words that make the value a property of a secret, or a reference to one, where they follow a secret word:
#: PASSWORD_FILE.
_PROPERTIES = _set(
    "algorithm audience backend budget class column count dir directory enabled env expiration expires expiry field "
    "file filename folder format header helper hint host id ids index kind length level limit location manager max "
    "min mode mount name namespace num optional options path paths per policy port prefix project provider ref refs "
    "region regex required rotation rule scope seconds size source store strategy timeout ttl type uri url usage user "
    "username var variable version"
)
#: Words whose identifier is confidential as well: AWS_ACCESS_KEY_ID, VAULT_SECRET_ID.
_CONFIDENTIAL_IDS = _set("access accesskey secret")
#: Words before "token" that name a token of a text: pad_token, next_token.
_TEXT_TOKENS = _set(
    "added assistant audio begin blank bos byte char cls completion context current decoder decoding draft encoder "
    "end eos eot extra fill fim first forced generated image input last mask max middle min next num output pad "
    "padding placeholder predicted prediction prefix prev previous prompt sentence sep separator special start stop "
    "subword suffix system text thinking total trigger unk unknown video vision word"
)
#: Words before "tokens" that name credentials.
_ACCESS_TOKENS = _set("access api auth bearer oauth refresh service session")
#: Words after "token" that do not change what it is: TOKEN_PROD, TOKEN_B64.
_NEUTRAL = _set("b base data dev encoded plain prod production secret staging test value")
#: Words before "pass" that name a pass over something: forward_pass.
_PASSES = _set("backward by compiler first forward multi num one per second single third two")
#: Words before "key" that name a credential, and those that never do. All other keys depend on the value.
_SECRET_KEYS = _set(
    "access account admin api app application auth client comet consumer datadog deploy deployment encryption hf "
    "huggingface integration jwt licence license master neptune openai private root secret security sendgrid sentry "
    "service session shared signing ssh storage stripe subscription wandb webhook"
)
_OTHER_KEYS = _set("cache foreign object partition primary public s3 sort task topology")
#: The shell's working directories.
_OTHER_NAMES = ("PWD", "OLDPWD")
#: The ending of the names of files with code, which are no secrets: credentials.py.
_CODE = ".py"
#: Fields below a secret's name that hold no secret: Kubernetes' references to a secret, and where it is mounted.
REFERENCES = _set(
    "apiVersion audience containerName defaultMode divisor expirationSeconds fieldPath key kind mode mountPath name "
    "namespace optional path readOnly resource secretName subPath user username"
)


class Grade(Enum):
    """What a name says about its value.

    ``LIKELY``: the value decides, as a key can be a credential or the name of a column.
    """

    NONE = 0
    LIKELY = 1
    SURE = 2


@lru_cache(maxsize=4096)
def grade(name: str) -> Grade:
    """Whether a name is that of a secret.

    :param name: of a variable, an option, a key or a field, e.g. ``DB_PASSWORD``, ``--api-key``, ``db.password``.
    """
    if name in _OTHER_NAMES or name.endswith(_CODE):
        return Grade.NONE
    words = [word.lower() for word in _WORD.findall(name)]
    for at in range(len(words) - 1, -1, -1):
        for pattern, rule in _RULES:
            if pattern.fullmatch(words[at]):
                return rule(words[at], words[at - 1] if at else "", words[at + 1 :])
    return Grade.NONE


def _secret(word: str, before: str, after: Sequence[str]) -> Grade:
    return Grade.NONE if _names_property(word, after) else Grade.SURE


def _key(word: str, before: str, after: Sequence[str]) -> Grade:
    if not before or before in _OTHER_KEYS or _names_property(before, after):
        return Grade.NONE
    if before in _SECRET_KEYS:
        return Grade.SURE
    return Grade.LIKELY if word == "key" else Grade.NONE


def _token(word: str, before: str, after: Sequence[str]) -> Grade:
    of_text = before not in _ACCESS_TOKENS if word == "tokens" else before in _TEXT_TOKENS
    is_whole = all(each in _NEUTRAL or each.isdigit() for each in after)
    return Grade.SURE if is_whole and not of_text else Grade.NONE


def _pass(word: str, before: str, after: Sequence[str]) -> Grade:
    return Grade.NONE if before in _PASSES or after else Grade.SURE


def _auth(word: str, before: str, after: Sequence[str]) -> Grade:
    return Grade.NONE if after else Grade.LIKELY


def _names_property(word: str, after: Sequence[str]) -> bool:
    return any(each in _PROPERTIES and not (each == "id" and word in _CONFIDENTIAL_IDS) for each in after)


#: A rule gets the word that it matches, the word before, and the words after. The last word that matches decides.
_RULES: tuple[tuple[re.Pattern[str], Callable[[str, str, Sequence[str]], Grade]], ...] = (
    (re.compile(r"keys?"), _key),
    (re.compile(r"\w*token|tokens"), _token),
    (re.compile(r"pass|pw"), _pass),
    (re.compile(r"auth|cookies?|pat|sas|sig|signature"), _auth),
    # Also as the end of a word: PGPASSWORD.
    (re.compile(r"\w*(?:password|passwd|passphrase|secret|apikey)s?"), _secret),
    (re.compile(r"passcode|pwd|creds?|credentials?|(?:access|secret|private)keys?|authorization|bearer|jwt"), _secret),
)
