"""Names of dynamic resource allocation in the API server's words: drivers, pools, shares, attributes, requests. Pure.

The rules are those of resource.k8s.io/v1. Each function takes the object that has the field, and the field's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from app.kinds.fielderrors import Field, FieldError
from app.kinds.name_syntax import (
    caseless_subdomain_faults,
    declared_subdomain_faults,
    label_faults,
    qualified_faults,
    subdomain_faults,
)

_MOST_OF_DRIVER = 63
_MOST_OF_POOL = 253
_MOST_OF_IDENTIFIER = 32
_MOST_BINDING = 4
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_UUID_TEXT = "must be a lowercase UUID in 8-4-4-4-12 format"
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


def bounded(holder: Field, name: str, most: int, *, declared: bool = True) -> bool:
    """Whether a list or map has at most `most` entries; more are reported. `declared` is that of `FieldError`."""
    count = len(holder.value.get(name) or ())
    if count <= most:
        return True
    text = f"must have at most {most} items"
    holder.errors.append(FieldError(holder.at(name), "TooMany", text, count, declared=declared))
    return False


def immutable(holder: Field, name: str, text: str = "field is immutable") -> None:
    """Report a change of a field; the server does not show the new value."""
    holder.errors.append(FieldError(holder.at(name), "Invalid", text, declared=True))


def check_driver(holder: Field, name: str) -> None:
    """A driver's name: a DNS subdomain of at most 63 bytes; capital letters are accepted."""
    if holder.required(name):
        too_long(holder, name, _MOST_OF_DRIVER)
        holder.syntax(name, lambda text: subdomain_faults(text.lower()))


def check_declared_driver(holder: Field, name: str) -> None:
    """As `check_driver`, for the fields whose rule the server has as a declaration: it counts characters."""
    length = len(holder.text(name))
    if length <= _MOST_OF_DRIVER:
        too_long(holder, name, _MOST_OF_DRIVER)
    with holder.declared():
        holder.named(name, caseless_subdomain_faults)
        if length > _MOST_OF_DRIVER:
            holder.fault(name, "TooLong", f"may not be more than {_MOST_OF_DRIVER} characters")


def check_pool(holder: Field, name: str) -> None:
    """A pool's name: DNS subdomains joined by `/`, at most 253 bytes together."""
    if holder.required(name):
        too_long(holder, name, _MOST_OF_POOL)
        for part in holder.text(name).split("/"):
            for text in subdomain_faults(part):
                holder.fault(name, "Invalid", text, part)


def check_declared_pool(holder: Field, name: str) -> None:
    """As `check_pool`, for the field whose rule the server has as a declaration: it numbers the subdomains."""
    with holder.declared():
        if not holder.required(name):
            return
        too_long(holder, name, _MOST_OF_POOL)
        for index, part in enumerate(holder.text(name).split("/")):
            for text in declared_subdomain_faults(part) if part else ("must not be empty",):
                holder.fault(name, "Invalid", f"segment {index}: {text}", part or holder.text(name))


def check_share(holder: Field, name: str) -> None:
    """The identity of a share of a device: an RFC 4122 UUID in its normal form."""
    with holder.declared():
        holder.syntax(name, lambda text: [] if _UUID.fullmatch(text) else [_UUID_TEXT])


def check_attribute(holder: Field, name: str) -> None:
    """The name of an attribute of a device: a C identifier of at most 32 bytes, which may follow a domain and a slash.

    Capital letters are accepted in the domain.
    """
    _check_parts(holder, name, ("the domain", "the name"), lambda domain: subdomain_faults(domain.lower()))


def check_qualified(holder: Field, name: str) -> None:
    """The name of an attribute of devices of any driver: a domain, a slash and a C identifier of at most 32 bytes."""
    with holder.declared():
        _check_parts(
            holder,
            name,
            ("prefix", "name"),
            lambda domain: [f"prefix: {text}" for text in declared_subdomain_faults(domain)],
        )
        if "/" not in holder.text(name):
            holder.fault(name, "Invalid", "a fully qualified name must be a domain and a name separated by a slash")


def _check_parts(holder: Field, name: str, words: tuple[str, str], domain_faults: Callable[[str], list[str]]) -> None:
    """The parts of an attribute's name, which `words` call by these names. The server accepts more than two of them."""
    *domains, identifier = holder.text(name).split("/")
    if len(domains) > 1:
        return
    for domain in domains:
        if not domain:
            holder.fault(name, "Invalid", f"{words[0]} must not be empty", "")
            continue
        part = Field({name: domain}, holder.path, holder.errors)
        too_long(part, name, _MOST_OF_DRIVER)
        part.syntax(name, domain_faults)
    if domains and not identifier:
        holder.fault(name, "Invalid", f"{words[1]} must not be empty", "")
        return
    too_long(Field({name: identifier}, holder.path, holder.errors), name, _MOST_OF_IDENTIFIER)
    if not _IDENTIFIER.fullmatch(identifier):
        holder.fault(name, "Invalid", _IDENTIFIER_TEXT, identifier)


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
    with holder.declared():
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
