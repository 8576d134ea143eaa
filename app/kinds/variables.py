"""Validation of the variables of containers, and of the files that volumes write, in the API server's words. Pure.

Both have references to fields of the Pod and to amounts of its containers. Files are those of Secrets, ConfigMaps,
the Pod itself, tokens and certificates. Source: `validateProjectionSources` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import (
    check_annotations,
    check_label_selector,
    inner_path_faults,
    key_faults,
    label_faults,
    qualified_faults,
    subdomain_faults,
)
from app.kube.quantity import parse
from app.wire import JSON

_VARIABLE_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONE_TEXT = "may not have more than one field specified at a time"
_VARIABLE_FIELDS = frozenset(
    f"{holder}.{field}"
    for holder, fields in (
        ("metadata", ("name", "namespace", "uid")),
        ("spec", ("nodeName", "serviceAccountName")),
        ("status", ("hostIP", "hostIPs", "podIP", "podIPs")),
    )
    for field in fields
)
_LABELLED = ("metadata.annotations", "metadata.labels")
"""Fields of which one entry may be named."""
_FIELDS = _VARIABLE_FIELDS | {*_LABELLED, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
"""Fields that exist. Each use has some of them."""
_OLD_FIELDS = {"spec.host": "spec.nodeName"}
_RESOURCES = [f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")]
_HUGEPAGES = ("limits.hugepages-", "requests.hugepages-")
_SIZES = ("1", *(f"1{prefix}" for prefix in "kMGTPE"), *(f"1{prefix}i" for prefix in "KMGTPE"))
_DIVISORS = {"cpu": (("1m", "1"), "cpu"), "memory": (_SIZES, "memory")}
_DIVISORS |= {"ephemeral-storage": (_SIZES, "local ephemeral storage"), "hugepages": (_SIZES, "hugepages")}
"""By resource: what an amount may be divided by, and what the server calls the resource."""
_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 2**32
_DAY = 24 * 60 * 60
_SHORTEST_CERTIFICATE = 60 * 60
_LONGEST_CERTIFICATE = 91 * _DAY
_LONGEST_DOMAIN = 253
_LONGEST_SIGNER = _LONGEST_DOMAIN + 1 + 63 + 1 + 253
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_CERTIFICATE_FILES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_FILE_FIELDS = frozenset(f"metadata.{field}" for field in ("name", "namespace", "uid", "labels", "annotations"))


def check_environment(container: Field, volumes: Mapping[str | None, JSON]) -> None:
    """The variables of one container, single ones and those that come in bulk; `volumes` are the Pod's, by name."""
    for variable in container.each("env"):
        variable.named("name", _variable_faults)
        for source in variable.present("valueFrom"):
            _check_value_source(source, valued=bool(variable.value.get("value")))
            for reference in source.present("fileKeyRef"):
                _check_file(reference, volumes)
    for bulk in container.each("envFrom"):
        bulk.syntax("prefix", _variable_faults)
        sources = [kind for kind in ("configMapRef", "secretRef") if kind in bulk.value]
        if len(sources) != 1:
            # The server leaves the index out of this path.
            text = _ONE_TEXT if sources else "must specify one of: `configMapRef` or `secretRef`"
            container.fault("envFrom", "Invalid", text, "")
        for reference in bulk.present(*sources):
            reference.named("name", _prefix_faults)


def _variable_faults(name: str) -> list[str]:
    return [] if "=" not in name and name.isascii() and name.isprintable() else [_VARIABLE_TEXT]


def _prefix_faults(name: str) -> list[str]:
    """The server takes these names for the beginnings of names: they may end with a hyphen."""
    return subdomain_faults(f"{name[:-1]}a" if len(name) > 1 and name.endswith("-") else name)


def _check_value_source(source: Field, *, valued: bool) -> None:
    """Where the value of a variable comes from: one place, and instead of a value."""
    if valued:
        source.fault("", "Invalid", "may not be specified when `value` is not empty", "")
    if not source.value:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        source.fault("", "Invalid", text, "")
    elif len(source.value) > 1:
        source.fault("", "Invalid", _ONE_TEXT, "")
    for reference in source.present("fieldRef"):
        check_field_ref(reference, _VARIABLE_FIELDS)
    for reference in source.present("resourceFieldRef"):
        check_resource_ref(reference)
    for reference in source.present("configMapKeyRef", "secretKeyRef"):
        reference.syntax("name", subdomain_faults)
        reference.named("key", key_faults)


def _check_file(reference: Field, volumes: Mapping[str | None, JSON]) -> None:
    """A key of a file that another container writes into an empty directory."""
    reference.named("key", _variable_faults)
    reference.named("volumeName", label_faults)
    if reference.required("path") and ".." in reference.text("path").split("/"):
        reference.fault("path", "Invalid", "must not contain '..'")
    volume = volumes.get(reference.text("volumeName"))
    if volume is None:
        reference.fault("volumeName", "NotFound", "", reference.text("volumeName"))
    elif "emptyDir" not in volume:
        reference.fault("volumeName", "Invalid", "referenced volume must be of type emptyDir")


def check_field_ref(reference: Field, shown: frozenset[str]) -> None:
    """A field of the Pod, of those that can be `shown` here, or one of its labels or annotations."""
    written, version = reference.text("fieldPath"), reference.text("apiVersion")
    if not reference.required("apiVersion") or not reference.required("fieldPath"):
        return
    field = _OLD_FIELDS.get(written, written)
    head, bracket, rest = field.removesuffix("']").partition("['")
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        reference.fault("fieldPath", "Invalid", text)
    elif field.endswith("']") and bracket and head:
        if head not in _LABELLED:
            text = f"error converting fieldPath: field label does not support subscript: {field}"
            reference.fault("fieldPath", "Invalid", text)
        else:
            key = rest.lower() if head == "metadata.annotations" else rest
            reference.errors += invalid(reference.path, key, qualified_faults(key))
    elif field not in _FIELDS:
        reference.fault("fieldPath", "Invalid", f"error converting fieldPath: field label not supported: {field}")
    elif field not in shown:
        Field({"fieldPath": field}, reference.path, reference.errors).one_of("fieldPath", sorted(shown))


def check_resource_ref(reference: Field, *, of_file: bool = False) -> None:
    """An amount of a container, which a file has to name; and what it is divided by."""
    resource = reference.text("resource")
    if of_file and not reference.text("containerName"):
        reference.fault("containerName", "Required")
    elif reference.required("resource") and not resource.startswith(_HUGEPAGES):
        reference.one_of("resource", _RESOURCES)
    divisor = reference.value.get("divisor", "0")
    kind = "hugepages" if resource.startswith(_HUGEPAGES) else resource.partition(".")[2]
    divisors, name = _DIVISORS.get(kind, ((), ""))
    if parse(divisor) and (kind == "hugepages" or resource in _RESOURCES) and divisor not in divisors:
        text = f"only divisor's values {_listed(divisors)} are supported with the {name} resource"
        reference.fault("divisor", "Invalid", text, resource)


def _listed(divisors: tuple[str, ...]) -> str:
    return " and ".join(divisors) if len(divisors) == 2 else ", ".join(divisors)


def check_files(source: Field) -> None:
    """The files that a volume, or a source of a projected one, makes of keys."""
    _check_mode(source, "defaultMode")
    for item in source.each("items"):
        item.required("key")
        item.named("path", inner_path_faults)
        _check_mode(item, "mode")


def check_downward_files(source: Field) -> None:
    """The files of a downward API volume; the server leaves their index out of the paths."""
    _check_mode(source, "defaultMode")
    for _, entry in source.entries("items"):
        item = Field(entry or {}, source.path, source.errors)
        item.named("path", inner_path_faults)
        if "fieldRef" in item.value:
            if "resourceFieldRef" in item.value:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                item.fault("", "Invalid", text, "resource")
            check_field_ref(item.below("fieldRef"), _FILE_FIELDS)
        elif "resourceFieldRef" in item.value:
            check_resource_ref(item.below("resourceFieldRef"), of_file=True)
        else:
            item.fault("", "Required", "one of fieldRef and resourceFieldRef is required")
        _check_mode(item, "mode")


def check_projected(volume: Field) -> None:
    """A volume of several sources, of which no two write one file."""
    _check_mode(volume, "defaultMode")
    written: set[str] = set()
    for source in volume.each("sources"):
        if len(source.value) > 1:
            source.fault("", "Forbidden", "may not specify more than 1 volume type per source")
        for kind in source.value.keys() & _SOURCES.keys():
            _SOURCES[kind](volume, source.below(kind), written)


def _check_keys(volume: Field, files: Field, written: set[str]) -> None:
    files.required("name")
    check_files(files)
    for _, item in files.entries("items"):
        _write(volume, (item or {}).get("path") or "", written, shown=files.text("name"))


def _check_downward(volume: Field, source: Field, written: set[str]) -> None:
    check_downward_files(source)
    for _, item in source.entries("items"):
        _write(volume, (item or {}).get("path") or "", written)


def _check_token(volume: Field, token: Field, _written: set[str]) -> None:
    """A token's file may be another's: the server does not compare it."""
    token.number("expirationSeconds", _SHORTEST_TOKEN, "may not specify a duration less than 10 minutes")
    if token.value.get("expirationSeconds", 0) > _LONGEST_TOKEN:
        token.fault("expirationSeconds", "Invalid", "may not specify a duration larger than 2^32 seconds")
    path = token.text("path")
    if not path:
        volume.fault("path", "Required")  # the server leaves the source out of this path
    volume.errors += invalid(volume.at("path"), path, inner_path_faults(path))


def _check_bundle(volume: Field, bundle: Field, written: set[str]) -> None:
    """Trusted certificates, by the name of their object or by signer."""
    if {"name", "signerName"} <= bundle.value.keys():
        bundle.fault("", "Invalid", "only one of name and signerName may be used", bundle.value)
    elif "name" in bundle.value:
        if not bundle.text("name"):
            bundle.fault("name", "Required", "must be a valid object name")
        texts = _bundle_name_faults(bundle.text("name"))
        bundle.errors += invalid(
            bundle.at("name"), bundle.text("name"), [f"not a valid clustertrustbundlename: {text}" for text in texts]
        )
        if "labelSelector" in bundle.value:
            bundle.fault("labelSelector", "Invalid", "labelSelector must be unset if name is specified")
    elif "signerName" in bundle.value:
        _check_signer(bundle, "must be a valid signer name")
        selector = bundle.value.get("labelSelector")
        bundle.errors += check_label_selector(selector or {}, bundle.at("labelSelector"))
    else:
        bundle.fault("", "Required", "either name or signerName must be specified")
    bundle.required("path")
    bundle.syntax("path", inner_path_faults)
    _write(volume, bundle.text("path"), written, empty=True)


def _bundle_name_faults(name: str) -> list[str]:
    """A name begins with its signer's, where it has one, with a colon for the slash."""
    signer, colon, own = name.rpartition(":")
    if colon and not signer:
        return ['ClusterTrustBundle without signer name must not have ":" in its name']
    if "/" in signer:
        prefix = f"{signer.replace('/', ':')}:"
        return [f"ClusterTrustBundle for signerName {signer.replace(':', '/')} must be named with prefix {prefix}"]
    return subdomain_faults(own)


def _check_certificate(volume: Field, certificate: Field, written: set[str]) -> None:
    """A certificate for the Pod, and its key."""
    _check_signer(certificate)
    annotations, at = certificate.value.get("userAnnotations") or {}, certificate.at("userAnnotations")
    certificate.errors += check_annotations(annotations, at)
    for key in (key for key in annotations if "/" not in key and not qualified_faults(key.lower())):
        certificate.errors += invalid(at, key, ['must be a domain-prefixed key (such as "acme.io/foo")'])
    certificate.one_of("keyType", _KEY_TYPES)
    domain = certificate.text("signerName").partition("/")[0]
    most = _DAY if f".{domain}".endswith(".kubernetes.io") else _LONGEST_CERTIFICATE
    for limit, sign, exceeded in ((_SHORTEST_CERTIFICATE, ">=", int.__lt__), (most, "<=", int.__gt__)):
        if exceeded(certificate.value.get("maxExpirationSeconds", limit), limit):
            text = f"if provided, maxExpirationSeconds must be {sign} {limit}"
            certificate.fault("maxExpirationSeconds", "Invalid", text)
    for field in _CERTIFICATE_FILES:
        certificate.syntax(field, inner_path_faults)
        _write(volume, certificate.text(field), written)
    if not any(map(certificate.text, _CERTIFICATE_FILES)):
        *first, last = _CERTIFICATE_FILES
        certificate.fault("", "Required", f"specify at least one of {', '.join(first)}, and {last}")


def _check_signer(source: Field, detail: str = "") -> None:
    """The signer of certificates: a domain of at least two labels, and a name."""
    name = source.text("signerName")
    if not source.required("signerName", detail):
        return
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        source.fault("signerName", "Invalid", text)
        return
    domain, _, own = name.partition("/")
    for part, faults in ((domain, label_faults), (own, subdomain_faults)):
        wrong = next((label for label in part.split(".") if faults(label)), None)
        if wrong is not None:
            texts = [f'validating label "{wrong}": {text}' for text in faults(wrong)]
            source.errors += invalid(source.at("signerName"), part, texts)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        source.fault("signerName", "Invalid", text, domain)
    for part, most in ((domain, _LONGEST_DOMAIN), (name, _LONGEST_SIGNER)):
        if len(part.encode()) > most:
            source.fault("signerName", "TooLong", f"may not be more than {most} bytes")


def _write(volume: Field, file: str, written: set[str], *, shown: str | None = None, empty: bool = False) -> None:
    """Note a file that is written; with `empty` no name counts as one too, as with the server."""
    if (file or empty) and file in written:
        volume.fault("", "Invalid", "conflicting duplicate paths", file if shown is None else shown)
    if file or empty:
        written.add(file)


_SOURCES: dict[str, Callable[[Field, Field, set[str]], None]] = {
    "secret": _check_keys,
    "configMap": _check_keys,
    "downwardAPI": _check_downward,
    "serviceAccountToken": _check_token,
    "clusterTrustBundle": _check_bundle,
    "podCertificate": _check_certificate,
}
"""The check of each source: of the volume, the source, and the files that earlier sources write."""


def _check_mode(holder: Field, name: str) -> None:
    holder.number(name, 0, "must be a number between 0 and 0777 (octal), both inclusive", 0o777)
