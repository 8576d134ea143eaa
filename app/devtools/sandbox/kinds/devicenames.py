"""Names of dynamic resource allocation in the API server's words: drivers, pools, shares, attributes, requests. Pure.

The rules are those of resource.k8s.io/v1. Each function takes the object that has the field, and the field's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from app.kinds.fielderrors import Field
from app.kinds.name_syntax import label_faults, qualified_faults, subdomain_faults

_MOST_OF_DRIVER = 63
_MOST_OF_POOL = 253
_MOST_OF_IDENTIFIER = 32
_MOST_BINDING = 4
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_HEX = "[0-9a-fA-F]"
_UUID = re.compile(f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}", re.ASCII)
_UUID_LENGTHS = (32, 36, 38, 45)
"""Digits alone; with dashes; these in braces; these as a URN."""
_UUID_TEXT = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)
_REFERENCE_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

RequestNames = Mapping[str, Collection[str]]
"""The names of a claim's requests, each with those of its subrequests."""


def too_long(holder: Field, name: str, limit: int) -> bool:
    """Whether a text is longer than `limit` bytes, which is reported."""
    if len(holder.text(name).encode()) <= limit:
        return False
    holder.fault(name, "TooLong", f"may not be more than {limit} bytes")
    return True


def bounded(holder: Field, name: str, most: int) -> bool:
    """Whether a list or map has at most `most` entries; more are reported."""
    count = len(holder.value.get(name) or ())
    if count <= most:
        return True
    holder.fault(name, "TooMany", f"must have at most {most} items", count)
    return False


def check_driver(holder: Field, name: str) -> None:
    """A driver's name: a DNS subdomain of at most 63 bytes; capital letters are accepted."""
    if holder.required(name):
        too_long(holder, name, _MOST_OF_DRIVER)
        holder.syntax(name, lambda text: subdomain_faults(text.lower()))


def check_pool(holder: Field, name: str) -> None:
    """A pool's name: DNS subdomains joined by `/`, at most 253 bytes together."""
    if holder.required(name):
        too_long(holder, name, _MOST_OF_POOL)
        for part in holder.text(name).split("/"):
            for text in subdomain_faults(part):
                holder.fault(name, "Invalid", text, part)


def check_share(holder: Field, name: str) -> None:
    """The identity of a share of a device: an RFC 4122 UUID in its normal form."""
    holder.syntax(name, _share_faults)


def _share_faults(text: str) -> list[str]:
    if len(text) not in _UUID_LENGTHS:
        return [f"error validating uid: invalid UUID length: {len(text)}"]
    if not _UUID.fullmatch(_with_dashes(text)):
        return ["error validating uid: invalid UUID format"]
    return [] if len(text) == 36 and text == text.lower() else [_UUID_TEXT]


def _with_dashes(text: str) -> str:
    if len(text) == 32:
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    if len(text) == 38:
        return text[1:-1] if text[0] + text[-1] == "{}" else ""
    return text.lower().removeprefix("urn:uuid:") if len(text) == 45 else text


def check_attribute(holder: Field, name: str, *, qualified: bool) -> None:
    """The name of an attribute: a C identifier of at most 32 bytes, behind a domain and a slash.

    Where it need not be `qualified`, the domain may be left out.
    """
    text = holder.text(name)
    domain, slash, identifier = text.partition("/")
    if "/" not in identifier:
        if slash:
            _check_domain(holder, name, domain)
        _check_identifier(holder, name, identifier if slash else text)
    if qualified and not slash:
        fault = "a fully qualified name must be a domain and a name separated by a slash"
        holder.fault(name, "Invalid", fault, text)


def _check_domain(holder: Field, name: str, domain: str) -> None:
    if domain:
        one = Field({name: domain}, holder.path, holder.errors)
        check_driver(one, name)
    else:
        holder.fault(name, "Invalid", "the domain must not be empty", "")


def _check_identifier(holder: Field, name: str, text: str) -> None:
    if not text and "/" in holder.text(name):
        holder.fault(name, "Invalid", "the name must not be empty", "")
        return
    if len(text.encode()) > _MOST_OF_IDENTIFIER:
        holder.fault(name, "TooLong", f"may not be more than {_MOST_OF_IDENTIFIER} bytes")
    if not _IDENTIFIER.fullmatch(text):
        holder.fault(name, "Invalid", _IDENTIFIER_TEXT, text)


def check_reference(holder: Field, name: str, text: str, known: RequestNames) -> None:
    """A reference to a request of the claim (`NAME`) or to one of its subrequests (`NAME/NAME`)."""
    parts = text.split("/")
    if len(parts) > 2:
        holder.fault(name, "Invalid", _REFERENCE_TEXT, text)
        return
    for part in parts:
        for fault in label_faults(part):
            holder.fault(name, "Invalid", fault, part)
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        holder.fault(name, "Invalid", _REFERENCE_TEXT, text)


def check_references(holder: Field, known: RequestNames, *, most: int) -> None:
    """The list `requests` of a constraint or configuration: references, each once."""
    if not bounded(holder, "requests", most):
        return
    for here, text in holder.entries("requests"):
        check_reference(holder, here, text, known)
    seen: set[str] = set()
    for here, text in holder.entries("requests"):
        holder.unique(here, text, seen)


def check_binding(holder: Field) -> None:
    """The conditions that a device waits for before its Pod is bound, and those that end the wait."""
    wanted, failed = "bindingConditions", "bindingFailureConditions"
    for name in (wanted, failed):
        if bounded(holder, name, _MOST_BINDING):
            holder.texts(name, qualified_faults)
    for name in (wanted, failed):
        seen: set[str] = set()
        for here, condition in holder.entries(name):
            holder.unique(here, condition, seen)
    both = set(holder.value.get(wanted) or [])
    for here, condition in holder.entries(failed):
        if condition in both:
            holder.fault(here, "Invalid", f"{failed} must not overlap with {wanted}", condition)
    for name, other in ((wanted, failed), (failed, wanted)):
        if holder.value.get(other) and not holder.value.get(name):
            holder.fault(name, "Invalid", f"{name} are required to use {other}")
