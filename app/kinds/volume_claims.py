"""Validation of PersistentVolumeClaims and of the templates of claims, in the API server's words. Pure.

Source: `ValidatePersistentVolumeClaimSpec` and the claims' registry strategy of Kubernetes 1.37.
"""

from __future__ import annotations

from app.kinds.fielderrors import Field, supported
from app.kinds.name_syntax import check_annotations, check_label_selector, check_labels, label_faults, subdomain_faults
from app.kube.quantity import parse
from app.wire import JSON

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"
_CLAIM = "PersistentVolumeClaim"
_SNAPSHOT = ("snapshot.storage.k8s.io", "VolumeSnapshot")
_STORAGE = "resources[storage]"
_DEFAULT_GROUP_TEXT = f"must be '{_CLAIM}' when referencing the default apiGroup"
_USED_METADATA = frozenset({"labels", "annotations"})


def check_claim(whole: Field) -> None:
    """A claim that is to be created, in the form in which it will be stored."""
    stored = Field({**whole.below("spec").value}, "spec", whole.errors)
    prepare_claim(stored.value)
    check_claim_spec(stored)


def prepare_claim(spec: JSON) -> None:
    """Make the two data sources of a new claim one, as an API server does before it checks them.

    A source in another namespace is dropped (its feature is off), and so is a kind that `dataSource` cannot have.
    """
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        kind = (source.get("apiGroup") or "", source.get("kind") or "")
        if kind in (("", _CLAIM), _SNAPSHOT):
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = {field: value for field, value in reference.items() if field != "namespace"}


def check_claim_template(template: Field) -> None:
    """The claim that an ephemeral volume makes: of its metadata, labels and annotations alone may be set."""
    metadata = template.below("metadata")
    metadata.errors += check_annotations(metadata.value.get("annotations") or {}, metadata.at("annotations"))
    metadata.errors += check_labels(metadata.value.get("labels"), metadata.at("labels"))
    for field, value in metadata.value.items():
        if field not in _USED_METADATA and value != "" and (field, value) != ("generation", 0):
            # The server writes the names of its own fields here.
            metadata.fault("uID" if field == "uid" else field, "Forbidden", "cannot be set")
    check_claim_spec(template.below("spec"))


def check_claim_spec(spec: Field) -> None:
    """What a claim asks for: how it is used, how large it is, and what it is made of."""
    modes = spec.value.get("accessModes") or []
    spec.required("accessModes", "at least 1 access mode is required")
    for mode in modes:
        spec.errors += supported(spec.at("accessModes"), mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        spec.fault("accessModes", "Forbidden", f"may not use {_ALONE} with other access modes")
    if "selector" in spec.value:
        spec.errors += check_label_selector(spec.value["selector"], spec.at("selector"))
    storage = (spec.below("resources").value.get("requests") or {}).get("storage")
    if storage is None:
        spec.fault(_STORAGE, "Required")
    elif parse(storage) <= 0:
        spec.fault(_STORAGE, "Invalid", "must be greater than zero", storage)
    for field in ("storageClassName", "volumeAttributesClassName"):
        spec.syntax(field, subdomain_faults, optional=True)
    spec.one_of("volumeMode", ("Block", "Filesystem"), optional=True)
    _check_sources(spec)


def _check_sources(spec: Field) -> None:
    for source in spec.present("dataSource", "dataSourceRef"):
        source.required("name")
        source.required("kind")
        if not source.text("apiGroup") and source.text("kind") != _CLAIM:
            source.fault("", "Invalid", _DEFAULT_GROUP_TEXT, source.text("kind"))
        source.syntax("apiGroup", subdomain_faults, optional=True)
    reference = spec.below("dataSourceRef")
    reference.syntax("namespace", label_faults, optional=True)
    if not {"dataSource", "dataSourceRef"} <= spec.value.keys():
        return
    if reference.text("namespace"):
        spec.fault("", "Invalid", "may not be specified when dataSourceRef.namespace is specified", {})
    elif _identity(spec.below("dataSource").value) != _identity(reference.value):
        spec.fault("", "Invalid", "must match dataSourceRef", {})


def _identity(source: JSON) -> tuple[object, ...]:
    """An empty group is another than none: it is a pointer in Go."""
    return source.get("apiGroup"), source.get("kind") or "", source.get("name") or ""
