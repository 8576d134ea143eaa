"""Validation of Pods in the API server's words: what it would refuse, without its admission plugins.

Pure: takes an object that `shapes` decoded and `defaults` completed. Here are the Pod's spec as a whole, its host
names and name servers, and what an update may change.
"""

from __future__ import annotations

import ipaddress
import re

from app.kinds.claims import check_pod_claims, mirror_faults
from app.kinds.containers import check_containers
from app.kinds.fielderrors import Field, FieldError, invalid
from app.kinds.name_syntax import check_labels, label_faults, qualified_faults, subdomain_faults, too_long
from app.kinds.pod_annotations import check_pod_annotations
from app.kinds.requests import fill_pod_level
from app.kinds.resources import check_overhead, check_pod_resources
from app.kinds.scheduling import check_affinity, check_spreading, check_tolerations
from app.kinds.security import check_pod_security, check_system, containers_of
from app.kinds.volumes import check_volumes
from app.wire import JSON

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MOST_SERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_LONGEST_SEARCH = 253
_LONGEST_HOST_NAME = 64
_LABEL = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"_?{_LABEL}(\._?{_LABEL})*"
_SEARCH_FORM = re.compile(rf"(?!$)({_SEARCH})?\.?", re.ASCII)
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH}')"
)
_LONGEST = 2**31 - 1
_ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: JSON) -> list[FieldError]:
    """All faults of a Pod that is to be created (its metadata aside)."""
    spec = pod["spec"]
    metadata: JSON = pod.get("metadata") or {}
    # A name that is generated later is not known here.
    name = "" if metadata.get("generateName") else metadata.get("name") or ""
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec = {**spec, "terminationGracePeriodSeconds": 1}  # as it is stored
    if spec.get("resources"):
        spec = {**spec, "resources": dict(spec["resources"])}
        fill_pod_level(spec)
    errors = mirror_faults(pod) + check_pod_spec(spec, "spec", pod_name=name)
    whole = Field(spec, "spec", errors)
    check_pod_annotations(metadata.get("annotations") or {}, whole, "metadata.annotations", of_template=False)
    for container in containers_of(whole):
        if container.text("image").strip() != container.text("image"):
            container.fault("image", "Invalid", "must not have leading or trailing whitespace")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError("spec.nodeName", "Forbidden", text))
    return errors


def check_pod_spec(spec: JSON, path: str, *, pod_name: str = "") -> list[FieldError]:
    """All faults of a Pod's spec, in a Pod or in a template at `path`. A template has no `pod_name`."""
    pod = Field(spec, path)
    check_volumes(pod, pod_name)
    check_containers(pod)
    pod.one_of("restartPolicy", ("Always", "OnFailure", "Never"))
    _check_networking(pod)
    pod.errors += check_labels(spec.get("nodeSelector"), pod.at("nodeSelector"))
    check_affinity(pod.below("affinity"))
    check_tolerations(pod)
    check_spreading(pod)
    check_pod_security(pod)
    _check_names(pod)
    check_pod_claims(pod)
    pod.number("activeDeadlineSeconds", 1, f"must be between 1 and {_LONGEST}, inclusive", _LONGEST)
    check_overhead(pod)
    check_pod_resources(pod)
    pod.one_of("preemptionPolicy", ("Never", "PreemptLowerPriority"), optional=True)
    check_system(pod)
    return pod.errors


def _check_names(pod: Field) -> None:
    """Fields that name other objects, conditions and gates."""
    for field in ("nodeName", "serviceAccountName", "priorityClassName"):
        pod.syntax(field, subdomain_faults, optional=True)
    if "runtimeClassName" in pod.value:
        pod.syntax("runtimeClassName", subdomain_faults)
    for gate in pod.each("readinessGates"):
        gate.syntax("conditionType", qualified_faults)
    seen: set[str] = set()
    for here, entry in pod.entries("schedulingGates"):
        name = entry.get("name") or ""
        pod.errors += invalid(pod.at(here), name, qualified_faults(name))
        pod.unique(here, name, seen)


def _check_networking(pod: Field) -> None:
    """The Pod's host name and aliases, and its name servers."""
    pod.one_of("dnsPolicy", _DNS_POLICIES)
    if pod.value.get("dnsPolicy") == "None" and pod.value.get("dnsConfig") is None:
        pod.fault("dnsConfig", "Required", "must provide `dnsConfig` when `dnsPolicy` is None")
    else:
        _check_dns(pod.below("dnsConfig"), alone=pod.value.get("dnsPolicy") == "None")
    for field in ("hostname", "subdomain"):
        pod.syntax(field, label_faults, optional=True)
    if "hostnameOverride" in pod.value:
        _check_override(pod)
    for alias in pod.each("hostAliases"):
        alias.syntax("ip", _address_faults)
        alias.texts("hostnames", subdomain_faults)


def _check_override(pod: Field) -> None:
    """The host name that the Pod's processes see in place of the one that it has in the DNS."""
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if pod.value.get(field):
            pod.fault("hostnameOverride", "Forbidden", f"may not be specified when {field} is true")
    if len(pod.text("hostnameOverride").encode()) > _LONGEST_HOST_NAME:
        pod.fault("hostnameOverride", "TooLong", f"may not be more than {_LONGEST_HOST_NAME} bytes")
    pod.syntax("hostnameOverride", subdomain_faults)


def _check_dns(config: Field, *, alone: bool) -> None:
    servers, searches = config.value.get("nameservers") or [], config.value.get("searches") or []
    if alone:
        config.required("nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if len(servers) > _MOST_SERVERS:
        config.fault("nameservers", "Invalid", f"must not have more than {_MOST_SERVERS} nameservers")
    config.texts("nameservers", _address_faults)
    if len(searches) > _MOST_SEARCHES:
        config.fault("searches", "Invalid", f"must not have more than {_MOST_SEARCHES} search paths")
    if sum(len(search.encode()) + 1 for search in searches) - 1 > _LONGEST_SEARCHES:
        text = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        config.fault("searches", "Invalid", text)
    config.texts("searches", _search_faults)
    for here, option in config.entries("options"):
        if not option.get("name"):
            config.fault(here, "Required", "must not be empty")


def _search_faults(search: str) -> list[str]:
    faults = [too_long(_LONGEST_SEARCH)] if len(search.removesuffix(".").encode()) > _LONGEST_SEARCH else []
    return faults if _SEARCH_FORM.fullmatch(search) else [*faults, _SEARCH_TEXT]


def _address_faults(text: str) -> list[str]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [_ADDRESS_TEXT]
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return [_ADDRESS_TEXT]
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return ["must not be an IPv4-mapped IPv6 address"] if mapped else []


def check_pod_update(new: JSON, old: JSON) -> list[FieldError]:
    """What an update of a Pod's main resource changes although it may not."""
    after, before = dict(new["spec"]), dict(old["spec"])
    if len(after.get("containers") or []) != len(before.get("containers") or []):
        return [FieldError("spec.containers", "Forbidden", "pod updates may not add or remove containers")]
    errors: list[FieldError] = []
    kept = {gate.get("name") for gate in before.get("schedulingGates") or []}
    added = [gate.get("name") for gate in after.get("schedulingGates") or [] if gate.get("name") not in kept]
    if added:
        text = f"only deletion is allowed, but found new scheduling gate '{added[0]}'"
        errors.append(FieldError("spec.schedulingGates", "Forbidden", text))
    if any(entry not in (after.get("tolerations") or []) for entry in before.get("tolerations") or []):
        text = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(FieldError("spec.tolerations", "Forbidden", text))
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
    if before.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}  # a gated Pod may still narrow where it runs
    if _fixed(after, free) != _fixed(before, free):
        errors.append(FieldError("spec", "Forbidden", _UPDATE_TEXT))
    return errors


def _fixed(spec: JSON, free: set[str]) -> JSON:
    """What may not change: all but the `free` fields and the images."""
    fixed = {name: value for name, value in spec.items() if name not in free}
    for name in fixed.keys() & {"containers", "initContainers"}:
        fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed
