"""Validation of a Pod's names and name servers, in the API server's words: DNS, host names, aliases. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from app.kinds.fielderrors import FieldError
from app.kinds.name_syntax import invalid, label_faults, subdomain_faults, supported

if TYPE_CHECKING:
    from app.wire import JSON

_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_MOST_SERVERS = 3
_MOST_SEARCHES = 32
_LABEL = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"_?{_LABEL}(\._?{_LABEL})*"
_SEARCH_FORM = re.compile(rf"({_SEARCH})?\.?", re.ASCII)
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH}')"
)


def check_networking(spec: JSON, path: str) -> list[FieldError]:
    """How the Pod is called and whom it asks for names."""
    errors = supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _POLICIES)
    errors += _check_dns(spec, path)
    for field in ("hostname", "subdomain"):
        name = spec.get(field)
        if name:
            errors += invalid(f"{path}.{field}", name, label_faults(name))
    for index, alias in enumerate(spec.get("hostAliases") or []):
        here = f"{path}.hostAliases[{index}]"
        errors += _check_address(alias.get("ip") or "", f"{here}.ip")
        for at, name in enumerate(alias.get("hostnames") or []):
            errors += invalid(f"{here}.hostnames[{at}]", name, subdomain_faults(name))
    return errors


def _check_dns(spec: JSON, path: str) -> list[FieldError]:
    config, here = spec.get("dnsConfig"), f"{path}.dnsConfig"
    servers = (config or {}).get("nameservers") or []
    errors: list[FieldError] = []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [FieldError(here, "Required", "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(FieldError(f"{here}.nameservers", "Required", text))
    if config is None:
        return errors
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        errors.append(FieldError(f"{here}.nameservers", "Invalid", text, servers))
    for index, server in enumerate(servers):
        errors += _check_address(server, f"{here}.nameservers[{index}]")
    searches = config.get("searches") or []
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        errors.append(FieldError(f"{here}.searches", "Invalid", text, searches))
    errors += [
        FieldError(f"{here}.searches[{index}]", "Invalid", _SEARCH_TEXT, search)
        for index, search in enumerate(searches)
        if not search or not _SEARCH_FORM.fullmatch(search)
    ]
    errors += [
        FieldError(f"{here}.options[{index}]", "Required", "must not be empty")
        for index, option in enumerate(config.get("options") or [])
        if not option.get("name")
    ]
    return errors


def _check_address(text: str, path: str) -> list[FieldError]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [FieldError(path, "Invalid", _ADDRESS_TEXT, text)]
    return []
