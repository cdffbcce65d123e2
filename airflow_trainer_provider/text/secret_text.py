"""Masks secrets in text: values with a well-known form, and values that follow a secret's name."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from airflow_trainer_provider.text.secret_values import can_be_secret, is_secret, looks_random

#: Takes a secret, and returns its replacement.
Hide = Callable[[str], str]

_PEM = re.compile(
    r"(-----BEGIN (?P<what>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?)-----)"
    r"(?P<secret>(?:(?!-----).)*(?=-----END (?P=what)-----)|[\w+/=\s\\]*)",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?P<secret>"
    r"(?:gh[pousr]_|hf_|sk-|[sr]k_(?:live|test)_|npm_|r8_)(?=[A-Za-z]*\d)[A-Za-z0-9]{10,}"
    r"|(?:sk-(?:admin|ant|or|proj|svcacct)-|gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-|glsa_)[\w-]{10,}"
    r"|(?:github_pat_|pypi-AgE|dckr_[a-z]+_|nvapi-|xox[a-z]-|xapp-|ya29\.|hv[sbr]\.|AIza)[\w-]{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|dapi[0-9a-f]{32}|AGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?)"
    r"|(?<=hooks\.slack\.com/services/)(?P<hook>[\w/]{10,})"
)
#: Base64 in one line or in several; and the words in a kubeconfig, with its least length.
_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,}(?:(?:\\[nr]|[\r\n])+[A-Za-z0-9+/]+(?=[=\\\r\n\"']|$))*={0,2}")
_LINE_BREAKS = re.compile(r"\s|\\[nr]")
_KUBECONFIG = (b"clusters", b"users", b"contexts")
_SHORTEST_KUBECONFIG = 120
_SCHEME = re.compile(r"(?P<scheme>\b(?:bearer|basic|token|apikey|digest)\s+)(?P<secret>[\w.+/=~:*-]+)", re.IGNORECASE)
#: user:password@ in a URL. The password can contain "@", and "/" unless a port precedes that.
_URL_PASSWORDS = (
    re.compile(r"(://[^\s/:@'\"\[]{0,200}:)(?P<secret>[^\s/'\"]{1,1000})(?=@)"),
    re.compile(r"(://[^\s/:@'\"\[]{0,200}:)(?!\d*/)(?P<secret>[^\s/'\"@]{0,500}/[^\s'\"@]{0,500})(?=@)"),
)
#: token@ in a URL.
_URL_TOKEN = re.compile(r"(://)(?P<secret>[\w.~%+-]{16,1000})(?=@)")

#: A quotation mark, which is escaped in a text within a text.
_MARK = r"\\{0,8}[\"']"
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?P<escaped>\\{1,8}[\"']).*?(?P=escaped)"
#: A word of a shell, of a URL's query, or of text with escaped line breaks.
_WORD = r"(?:[^\s&;|\"'`<>\\]|\\(?![nrt\"']))+"
_NAME = r"(?P<name>[A-Za-z_][\w.-]*)"


def _named(before: str, word: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(rf"(?P<before>{before})(?P<value>{_QUOTED}|{word})", re.MULTILINE | flags)


#: {"name": NAME, "value": VALUE}, also as YAML, and as the API server prints it.
_OF_VARIABLE = _named(
    rf"\bname(?:{_MARK})?\s*[:=]\s*(?:{_MARK})?(?P<name>[\w.-]+)(?:{_MARK})?\s*,?\s*(?:\\n)?\s*"
    rf"(?:{_MARK})?value(?:{_MARK})?\s*[:=]\s*",
    r"[^\s,}\]\"'\\]+",
    re.IGNORECASE,
)
#: {"NAME": "VALUE"}, also with escaped quotation marks.
_OF_OBJECT = _named(rf"(?P<quote>{_MARK})(?P<name>[\w./ -]{{1,100}}?)(?P=quote)\s*[:=]\s*", r"[^\s,}\]\"'\\]+")
#: "NAME=VALUE", up to the closing quotation mark.
_IN_QUOTES = re.compile(rf"(?P<before>(?P<quote>{_MARK})-{{0,2}}{_NAME}=)(?P<value>[^\"'\\]+)(?=(?P=quote))")
#: NAME=VALUE, --NAME=VALUE, NAME = VALUE
_ASSIGNED = _named(rf"(?<![\w.-])-{{0,2}}{_NAME}[ \t]*=[ \t]*(?!=)", _WORD)
#: --OPTION=NAME=VALUE, as docker's --env
_ASSIGNED_TO_OPTION = _named(rf"(?<==){_NAME}=", _WORD)
#: --NAME VALUE, also on the next line; and as items of a list.
_OPTION = _named(r"(?<![\w-])--(?P<name>[A-Za-z][\w.-]*)(?:[ \t]|\\\r?\n)+(?!-)", _WORD)
_OPTION_ITEM = _named(rf"(?P<quote>{_MARK})--(?P<name>[A-Za-z][\w.-]*)(?P=quote)\s*,\s*(?!{_MARK}-)", r"(?!)")
#: NAME: VALUE as a block of YAML, which is indented further; on a line of its own; between braces; and at the beginning
#: of a quoted text, as in curl -H.
_OF_BLOCK = _named(
    rf"^(?P<indent>[ \t]*)(?:- +)?{_NAME}[ \t]*:[ \t]+[|>][-+\d]{{0,2}}[ \t]*\n(?P=indent)[ \t]+",
    r"\S.*(?:\n(?P=indent)[ \t]+.*)*",
)
_OF_LINE = _named(
    rf"(?:^|\\n)[ \t]*(?:- +)?{_NAME}[ \t]*:[ \t]+(?![|>][-+\d]{{0,2}}[ \t]*$)", r"\S(?:[^\n\\]|\\(?!n))*"
)
_OF_FLOW = _named(rf"[{{,][ \t]*{_NAME}[ \t]*:[ \t]+", r"[^\s,}][^\n,}]*")
_OF_HEADER = _named(rf"[\"']{_NAME}:[ \t]*", r"[^\s\"'\\][^\n\"'\\]*")
#: NAME:VALUE without a space. An image and its version, a port and a path, a time, and a mount are written so too.
_TIGHT = _named(
    rf"(?<![\w./:@-]){_NAME}:(?!v?\d+\.\d+\.|\d{{1,5}}/|\d{{4}}-\d\d-\d\dT|/\w+/)(?=\S)", r"[^\s&;|\"'`<>\\,}]+"
)
#: Each pattern, with the text without which it cannot match.
_PAIRS = (
    ("alue", _OF_VARIABLE),
    (":", _OF_OBJECT),
    ("=", _IN_QUOTES),
    ("=", _ASSIGNED),
    ("=", _ASSIGNED_TO_OPTION),
    ("--", _OPTION),
    ("--", _OPTION_ITEM),
)
_COLONS = ((":", _OF_BLOCK), (":", _OF_LINE), (":", _OF_FLOW), (":", _OF_HEADER))
#: curl -u user:password; an option that is a secret for these programs only; a .netrc; ODBC, where PWD is not the
#: working directory; user:password@host without a scheme.
_FORMS = (
    ("-u", re.compile(r"((?<![\w-])(?:-u|--user)[ =]+[\"']?[^\s:'\"]+:)(?!\d+\b)(?P<secret>[^\s'\"]+)")),
    ("sshpass", re.compile(r"(\bsshpass\s+-p[ =]?[\"']?)(?P<secret>[^\s'\"]+)")),
    ("mysql", re.compile(r"(\bmysql\w*\s(?:[^\n;&|]{0,200}?\s)?-p[\"']?)(?P<secret>[^\s'\"-][^\s'\"]*)")),
    ("login", re.compile(r"(\blogin\s(?:[^\n;&|]{0,200}?\s)?-p[ =][\"']?)(?P<secret>[^\s'\"]+)")),
    ("login", re.compile(r"(\blogin\s+\S+\s+password\s+)(?P<secret>\S+)")),
    ("PWD=", re.compile(r"(;\s*PWD=\{?)(?P<secret>[^\s;}'\"]+)")),
    (
        "@",
        re.compile(
            r"((?<![\w./:@-])(?!(?:mailto|cc|bcc|to|from|by|email|contact|author|maintainer|owner):)[A-Za-z_][\w.-]*:)"
            r"(?P<secret>[^\s:@/'\"]+)(?=@(?!sha\d)[A-Za-z0-9])"
        ),
    ),
)
#: The value of a variable that the API server rejects.
_REFUSED = re.compile(rf"(\benv\[[^\]]*\]\.value: [\w ]+: )(?P<value>{_QUOTED}|\S+)")
#: Characters after an unquoted value that belong to the sentence or the code around it.
_TRAILING = ")]},."
#: Code that reads the value from elsewhere: args.token, os.environ[..., $(cat /run/token
_CODE = re.compile(
    r"(?:args|cfg|cls|conf|config|env|flags|hparams|kwargs|opts?|options|os|params|self|settings)(?:\.[A-Za-z_]\w*)+"
    r"|[A-Za-z_][\w.]*[(\[].*|\$\(.*",
    re.DOTALL | re.IGNORECASE,
)


def mask_shapes(text: str, hide: Hide) -> str:
    """Mask secrets that have a well-known form: private keys, tokens, passwords in URLs.

    :param text: any text.
    :param hide: called with each secret.
    """
    if "PRIVATE KEY" in text:
        text = _PEM.sub(lambda found: found[1] + _hidden(found["secret"], hide), text)
    if "://" in text and "@" in text:
        for pattern in _URL_PASSWORDS:
            text = pattern.sub(lambda found: found[1] + _hidden(found["secret"], hide), text)
        text = _URL_TOKEN.sub(lambda found: found[1] + _hidden_if_random(found["secret"], hide), text)
    text = _TOKEN.sub(lambda found: hide(found["secret"] or found["hook"]), text)
    if len(text) > _SHORTEST_KUBECONFIG:
        text = _BASE64.sub(lambda found: hide(found[0]) if _is_kubeconfig(found[0]) else found[0], text)
    return _SCHEME.sub(lambda found: found["scheme"] + _hidden_if_random(found["secret"], hide), text)


def mask_named(text: str, hide: Hide) -> str:
    """Mask values that follow a secret's name, in the input of a job: scripts, arguments, configuration files.

    :param text: a part of the input.
    :param hide: called with each secret.
    """
    for needed, pattern in (*_PAIRS, *_COLONS):
        if needed in text:
            text = pattern.sub(lambda found: _pair(found, hide), text)
    text = _TIGHT.sub(lambda found: _tight_pair(found, hide), text)
    for needed, pattern in _FORMS:
        if needed in text:
            text = pattern.sub(lambda found: found[1] + _hidden(found["secret"], hide), text)
    return text


def mask_message(text: str, hide: Hide) -> str:
    """Mask values that follow a secret's name, in a message. After ``NAME:`` a message usually has words, which stay.

    :param text: the message.
    :param hide: called with each secret.
    """
    for needed, pattern in _PAIRS:
        if needed in text:
            text = pattern.sub(lambda found: _pair(found, hide), text)
    for pattern in (*(colon for _, colon in _COLONS), _TIGHT):
        text = pattern.sub(lambda found: _random_pair(found, hide), text)
    return _REFUSED.sub(lambda found: found[1] + _masked(found["value"], hide), text)


def mask_value(value: str, hide: Hide) -> str:
    """Mask the whole value of a secret's name, except the scheme of an authorization: ``Bearer ***``.

    :param value: the value.
    :param hide: called with the secret.
    """
    found = _SCHEME.fullmatch(value)
    return found["scheme"] + _hidden(found["secret"], hide) if found else _hidden(value, hide)


def _pair(found: re.Match[str], hide: Hide) -> str:
    before, value = found["before"], found["value"]
    quote = re.match(_MARK, value)
    if quote:
        inner = value[quote.end() : -quote.end()]
        is_code = False
    else:
        inner = value.rstrip(_TRAILING)
        is_code = bool(_CODE.fullmatch(value) or _CODE.fullmatch(inner))
    if is_code or not is_secret(found["name"], _without_scheme(inner)):
        return found[0]
    return before + _masked(value if quote else inner, hide) + (value[len(inner) :] if not quote else "")


def _random_pair(found: re.Match[str], hide: Hide) -> str:
    value = found["value"].rstrip(_TRAILING)
    quote = re.match(_MARK, value)
    bare = value[quote.end() : -quote.end()] if quote else value
    return _pair(found, hide) if looks_random(bare) else found[0]


def _tight_pair(found: re.Match[str], hide: Hide) -> str:
    """NAME:VALUE, or SECTION:NAME:VALUE."""
    masked = _random_pair(found, hide)
    if masked != found[0] or "/" in found["value"]:
        return masked
    return found["before"] + _TIGHT.sub(lambda inner: _random_pair(inner, hide), found["value"])


def _is_kubeconfig(text: str) -> bool:
    """Whether a text is a kubeconfig in base64."""
    encoded = _LINE_BREAKS.sub("", text).rstrip("=")
    if len(encoded) < _SHORTEST_KUBECONFIG:
        return False
    content = base64.b64decode(encoded[: len(encoded) // 4 * 4])
    return sum(word in content for word in _KUBECONFIG) > 1


def _masked(value: str, hide: Hide) -> str:
    """A value within quotation marks, or without."""
    quote = re.match(_MARK, value)
    if quote is None:
        return mask_value(value, hide)
    return quote[0] + mask_value(value[quote.end() : -quote.end()], hide) + quote[0]


def _without_scheme(value: str) -> str:
    found = _SCHEME.fullmatch(value)
    return found["secret"] if found else value


def _hidden(secret: str, hide: Hide) -> str:
    return hide(secret) if can_be_secret(secret) else secret


def _hidden_if_random(secret: str, hide: Hide) -> str:
    return hide(secret) if looks_random(secret) else secret
