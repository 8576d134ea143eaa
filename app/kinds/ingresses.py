"""Validation of Ingresses, in the API server's words. Pure. Source: `ValidateIngressCreate` of Kubernetes 1.37."""

from __future__ import annotations

import ipaddress

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import (
    PORT_TEXT,
    label_faults,
    path_segment_faults,
    port_name_faults,
    subdomain_faults,
    wildcard_faults,
)

_CLASS = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WRONG_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_WRONG_ENDS = ("/..", "/.")


def check_ingress(whole: Field) -> None:
    """Which requests go to which Services, and with which certificates."""
    spec = whole.below("spec")
    if not spec.value.get("rules") and "defaultBackend" not in spec.value:
        spec.fault("", "Invalid", "either `defaultBackend` or `rules` must be specified", [])
    for backend in spec.present("defaultBackend"):
        _check_backend(backend)
    for rule in spec.each("rules"):
        _check_host(rule)
        for http in rule.present("http"):
            http.required("paths")
            for path in http.each("paths"):
                _check_path(path)
    for certificate in spec.each("tls"):
        certificate.texts("hosts", _host_faults)
        certificate.syntax("secretName", subdomain_faults, optional=True)
    if "ingressClassName" in spec.value:
        spec.syntax("ingressClassName", subdomain_faults)
    annotation = (whole.below("metadata").value.get("annotations") or {}).get(_CLASS)
    if annotation is not None and annotation != spec.value.get("ingressClassName", annotation):
        text = "must match `ingressClassName` when both are specified"
        whole.errors += invalid(f"annotations.{_CLASS}", annotation, [text])


def _host_faults(host: str) -> list[str]:
    return wildcard_faults(host) if "*" in host else subdomain_faults(host)


def _check_host(rule: Field) -> None:
    host = rule.text("host")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        rule.fault("host", "Invalid", "must be a DNS name, not an IP address")
    rule.syntax("host", _host_faults, optional=True)


def _check_path(path: Field) -> None:
    if "pathType" not in path.value:
        path.fault("pathType", "Required", "pathType must be specified")
        return
    kind, text = path.text("pathType"), path.text("path")
    if kind not in _PATH_TYPES:
        path.one_of("pathType", _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        path.fault("path", "Invalid", "must be an absolute path", text)
    if kind in ("Exact", "Prefix"):
        texts = [f"must not contain '{part}'" for part in _WRONG_PARTS if part in text]
        texts += [f"cannot end with '{end}'" for end in _WRONG_ENDS if text.endswith(end)]
        path.errors += invalid(path.at("path"), text, texts)
    _check_backend(path.below("backend"))


def _check_backend(backend: Field) -> None:
    if {"resource", "service"} <= backend.value.keys():
        backend.fault("", "Invalid", "cannot set both resource and service backends", "")
    elif "resource" in backend.value:
        resource = backend.below("resource")
        if "apiGroup" in resource.value:
            resource.syntax("apiGroup", subdomain_faults)
        for field in ("kind", "name"):
            resource.named(field, path_segment_faults)
    elif "service" in backend.value:
        _check_service(backend)
    else:
        backend.fault("", "Invalid", "resource or service backend is required", "")


def _check_service(backend: Field) -> None:
    service = backend.below("service")
    port = service.below("port")
    service.named("name", label_faults)
    if port.text("name") and port.value.get("number"):
        backend.fault("", "Invalid", "cannot set both port name & port number", "")
    elif port.text("name"):
        port.syntax("name", port_name_faults)
    elif port.value.get("number"):
        port.number("number", 1, PORT_TEXT, 65535)
    else:
        backend.fault("", "Required", "port name or number is required")
