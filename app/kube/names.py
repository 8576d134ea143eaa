"""The naming rules of the API, with messages that say what would be right.

Each `check_` function returns its argument or raises ValueError; none of them looks anything up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from app.text import quoted

DNS_LABEL_LIMIT = 63
_DNS_SUBDOMAIN_LIMIT = 253
_HASH_LENGTH = 8
_MARKED = re.compile(rf".+-[0-9a-f]{{{_HASH_LENGTH}}}")

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+", re.ASCII)


def check_dns_label(text: str) -> str:
    """RFC 1123 label: names of namespaces, containers, volumes, most short names."""
    rule = "lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63 characters"
    return _check(text, rule, DNS_LABEL_LIMIT, [text])


def check_dns_subdomain(text: str) -> str:
    """RFC 1123 subdomain: names of most objects, and the prefix of a qualified name."""
    rule = (
        "lower-case letters, digits, '-' and '.', every part between dots beginning and ending with a letter or "
        "digit, at most 253 characters"
    )
    return _check(text, rule, _DNS_SUBDOMAIN_LIMIT, text.split("."))


def _check(text: str, rule: str, limit: int, labels: list[str]) -> str:
    if not text:
        raise ValueError(f"an empty name is not allowed: use {rule}")
    if len(text) > limit:
        raise ValueError(f"{quoted(text)} has {len(text)} characters: use {rule}")
    if not all(map(_DNS_LABEL.fullmatch, labels)):
        raise ValueError(f"{quoted(text)} is not a valid name: use {rule}")
    return text


def check_qualified_name(text: str) -> str:
    """`[prefix/]name`: label keys, resource names, condition types."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        try:
            check_dns_subdomain(prefix)
        except ValueError as error:
            raise ValueError(f"{quoted(text)} has a bad prefix: {error}") from None
    if not name or len(name) > DNS_LABEL_LIMIT or not _QUALIFIED.fullmatch(name):
        raise ValueError(
            f"{quoted(text)} is not a qualified name: use an optional DNS prefix and '/', then letters, digits, '-', "
            "'_' and '.', beginning and ending with a letter or digit, at most 63 characters"
        )
    return text


check_label_key = check_qualified_name


def check_annotation_key(text: str) -> str:
    """As a label key, but upper-case letters may stand in the prefix, which the API ignores there."""
    check_qualified_name(text.lower())
    return text


def domain_above(key: str, domains: Iterable[str]) -> str | None:
    """The first of `domains` in which, or below which, the prefix of a label or annotation key lies."""
    prefix, slash, _ = key.lower().partition("/")
    found = (domain for domain in domains if prefix == domain or prefix.endswith(f".{domain}"))
    return next(found, None) if slash else None


def check_label_value(text: str) -> str:
    if text and (len(text) > DNS_LABEL_LIMIT or not _QUALIFIED.fullmatch(text)):
        raise ValueError(
            f"{quoted(text)} is not a label value: use letters, digits, '-', '_' and '.', beginning and ending with "
            "a letter or digit, at most 63 characters, or nothing"
        )
    return text


PROOF_FORM = "[0-9a-z]{64,128}"
"""The form of the token by which an API server proves itself at the end of a webhook's path: at least 256 bits where
the characters are hexadecimal digits chosen at random. A path of a webhook may have them.
"""


def check_path_segment(text: str) -> str:
    """A name that can stand in a URL: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/validation/path."""
    if text in ("", ".", "..") or "/" in text or "%" in text:
        raise ValueError(
            f"{quoted(text)} cannot be part of a path: use a name without '/' and '%', not '.' and not '..'"
        )
    return text


def service_account_user(namespace: str, name: str) -> str:
    """The username of a ServiceAccount, as authentication gives it."""
    return f"system:serviceaccount:{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    """The groups that only ServiceAccounts of this namespace have; `system:authenticated` is not among them."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def is_marked(name: str) -> bool:
    """Whether it ends as `shorten` ends what it has cut."""
    return _MARKED.fullmatch(name) is not None


def shorten(text: str, limit: int = DNS_LABEL_LIMIT) -> str:
    """A DNS-safe name of at most `limit` characters: `text` itself where it fits, else cut and marked by its hash.

    The same text always gives the same name, and two texts that were cut give different ones wherever they differ.
    """
    if limit < _HASH_LENGTH + 2:
        raise ValueError(f"a name of {limit} characters cannot hold a hash")
    parts = text.split(".") if limit > DNS_LABEL_LIMIT else [text]
    fits = len(text) <= limit and all(_DNS_LABEL.fullmatch(part) for part in parts)
    if fits:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    stem = _NOT_IN_NAMES.sub("-", text.lower())[: limit - _HASH_LENGTH - 1].strip("-")
    return f"{stem}-{digest}" if stem else f"x-{digest}"
