"""Validation of the volumes of a Pod by their kinds, in the API server's words. Pure.

Source: `ValidateVolumes` of Kubernetes 1.37. What secrets, ConfigMaps and projected volumes write is in `variables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from app.kinds.claims import check_claim_template
from app.kinds.fielderrors import Field, invalid
from app.kinds.name_syntax import check_element_name, descending_path_faults, label_faults, subdomain_faults
from app.kinds.variables import check_downward_files, check_files, check_projected
from app.kube.quantity import parse

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_NAME_FORMS = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+:[^,;*&$|\t\n\f\r ]+\Z"),
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}\Z"),
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}\Z"),
}
"""The forms of names of iSCSI nodes; the first may stand anywhere in the text."""
_LONGEST_PORTAL = 64
_LONGEST_TENANT = 64
_LONGEST_DRIVER = 63
_BYTE_TEXT = "must be between 0 and 255, inclusive"
_PARTITION_TEXT = "must be between 1 and 255, inclusive"
_REGISTRY_TEXT = "must be a host:port pair or multiple pairs separated by commas"
_HOST_AND_PORT = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", re.DOTALL)
_MANAGED_URI = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def check_volumes(pod: Field, pod_name: str = "") -> None:
    """All volumes of a Pod; names are unique, and each has one source.

    With `pod_name`, the name of a Pod and not of a template, the claims that its volumes make are known.
    """
    seen: set[str] = set()
    made = {
        f"{pod_name}-{volume.get('name') or ''}"
        for volume in pod.value.get("volumes") or []
        if pod_name and "ephemeral" in volume
    }
    for volume in pod.each("volumes"):
        _check_sources(volume)
        check_element_name(volume, seen)
        if pod_name and "ephemeral" in volume.value:
            claim = f"{pod_name}-{volume.text('name')}"
            texts = [f'PVC name "{claim}": {text}' for text in subdomain_faults(claim)]
            volume.errors += invalid(volume.at("name"), volume.text("name"), texts)
        claimed = volume.below("persistentVolumeClaim")
        if claimed.text("claimName") in made:
            claimed.fault("claimName", "Invalid", "must not reference a PVC that gets created for an ephemeral volume")


def _check_sources(volume: Field) -> None:
    """The first source is checked, in the server's order; there may be no other."""
    sources = [kind for kind in _KINDS if kind in volume.value]
    if not sources:
        volume.fault("", "Required", "must specify a volume type")
    for extra in sources[1:]:
        volume.fault(extra, "Forbidden", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        source = volume.below(kind)
        _KINDS[kind](source)
        if kind == "iscsi" and "initiatorName" in source.value:
            _check_portal(volume, source)


def _needs(*fields: str) -> Callable[[Field], None]:
    """The check of a kind that needs these fields and nothing else."""

    def check(source: Field) -> None:
        for field in fields:
            source.required(field)

    return check


def _check_empty_directory(source: Field) -> None:
    if parse(source.value.get("sizeLimit", "0")) < 0:
        source.fault("sizeLimit", "Forbidden", "SizeLimit field must be a valid resource quantity")


def _check_host_path(source: Field) -> None:
    if source.required("path"):
        if ".." in source.text("path").split("/"):
            source.fault("path", "Invalid", "must not contain '..'")
        source.one_of("type", _HOST_TYPES, optional=True)


def _check_git(source: Field) -> None:
    source.required("repository")
    source.syntax("directory", descending_path_faults)


def _check_disk(source: Field) -> None:
    """The server calls a disk of Google's cloud by another name."""
    disk = Field(source.value, source.path.removesuffix("gcePersistentDisk") + "persistentDisk", source.errors)
    disk.required("pdName")
    disk.number("partition", 0, _PARTITION_TEXT, 255)


def _check_block_store(source: Field) -> None:
    source.required("volumeID")
    source.number("partition", 0, _PARTITION_TEXT, 255)


def _check_nfs(source: Field) -> None:
    source.required("server")
    source.required("path")
    if not source.text("path").startswith("/"):
        source.fault("path", "Invalid", "must be an absolute path", source.text("path"))


def _check_iscsi(source: Field) -> None:
    source.required("targetPortal")
    source.named("iqn", _node_name_faults)
    source.number("lun", 0, _BYTE_TEXT, 255)
    if (source.value.get("chapAuthDiscovery") or source.value.get("chapAuthSession")) and (
        "secretRef" not in source.value
    ):
        source.fault("secretRef", "Required")
    for name in [source.text("initiatorName")] if "initiatorName" in source.value else []:
        source.errors += invalid(source.at("initiatorname"), name, _node_name_faults(name))


def _check_portal(volume: Field, source: Field) -> None:
    portal = f"{volume.text('name')}:{source.text('targetPortal')}"
    if len(portal.encode()) > _LONGEST_PORTAL:
        text = (
            f"Total length of <volume name>:<iscsi.targetPortal> must be under {_LONGEST_PORTAL} characters if "
            "iscsi.initiatorName is specified."
        )
        volume.fault("name", "Invalid", text)


def _node_name_faults(name: str) -> list[str]:
    form = _NAME_FORMS.get(name[:3])
    if form is None:
        return ["must be valid format starting with iqn, eui, or naa"]
    return [] if form.search(name) else ["must be valid format"]


def _check_fibre_channel(source: Field) -> None:
    targets, names = source.value.get("targetWWNs") or [], source.value.get("wwids") or []
    if not targets and not names:
        source.fault("targetWWNs", "Required", "must specify either targetWWNs or wwids, but not both")
    if targets and names:
        source.fault("targetWWNs", "Invalid", "targetWWNs and wwids can not be specified simultaneously")
    if targets and "lun" not in source.value:
        source.fault("lun", "Required", "lun is required if targetWWNs is specified")
    elif targets:
        source.number("lun", 0, _BYTE_TEXT, 255)


def _check_flocker(source: Field) -> None:
    name, identity = source.text("datasetName"), source.text("datasetUUID")
    if not name and not identity:
        source.fault("", "Required", "one of datasetName and datasetUUID is required")
    if name and identity:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        source.fault("", "Invalid", text, "resource")
    if "/" in name:
        source.fault("datasetName", "Invalid", "must not contain '/'")


def _check_secret_named(field: str) -> Callable[[Field], None]:
    """The check of a kind that needs this field, and the name of a secret where it has one."""

    def check(source: Field) -> None:
        source.required(field)
        for secret in source.present("secretRef"):
            secret.required("name")

    return check


def _check_quobyte(source: Field) -> None:
    registry = source.text("registry")
    if not registry:
        source.fault("registry", "Required", _REGISTRY_TEXT)
    elif len(source.text("tenant").encode()) > _LONGEST_TENANT:
        text = f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"
        source.fault("tenant", "Required", text)
    else:
        for pair in registry.split(","):
            if not _HOST_AND_PORT.fullmatch(pair):
                source.fault("registry", "Invalid", _REGISTRY_TEXT)
    source.required("volume")


def _check_flex(source: Field) -> None:
    source.required("driver")
    for key in source.value.get("options") or {}:
        domain = f".{key.partition('/')[0].lower()}"
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            source.fault(f"options[{key}]", "Invalid", "kubernetes.io and k8s.io namespaces are reserved", key)


def _check_azure_disk(source: Field) -> None:
    source.required("diskName")
    source.required("diskURI")
    source.one_of("cachingMode", ("None", "ReadOnly", "ReadWrite"), optional=True)
    source.one_of("kind", ("Dedicated", "Managed", "Shared"), optional=True)
    managed = source.text("kind") == "Managed"
    if not source.text("diskURI").startswith("/subscriptions/" if managed else "https://"):
        text = f'supported values: "{_MANAGED_URI if managed else _BLOB_URI}"'
        source.fault("diskURI", "NotSupported", text, source.text("diskURI"))


def _check_storage_os(source: Field) -> None:
    source.named("volumeName", label_faults)
    source.syntax("volumeNamespace", label_faults, optional=True)
    for secret in source.present("secretRef"):
        secret.required("name")


def _check_csi(source: Field) -> None:
    driver = source.text("driver")
    if source.required("driver"):
        if len(driver.encode()) > _LONGEST_DRIVER:
            source.fault("driver", "TooLong", f"may not be more than {_LONGEST_DRIVER} bytes")
        source.syntax("driver", lambda name: subdomain_faults(name.lower()))
    for secret in source.present("nodePublishSecretRef"):
        if secret.required("name"):
            # The server leaves the reference out of this path.
            source.errors += invalid(source.at("name"), secret.text("name"), subdomain_faults(secret.text("name")))


def _check_ephemeral(source: Field) -> None:
    if "volumeClaimTemplate" not in source.value:
        source.fault("volumeClaimTemplate", "Required")
    for template in source.present("volumeClaimTemplate"):
        check_claim_template(template)


def _check_image(source: Field) -> None:
    source.required("reference")
    source.one_of("pullPolicy", PULL_POLICIES)


def _check_secret(source: Field) -> None:
    source.required("secretName")
    check_files(source)


def _check_config_map(source: Field) -> None:
    source.required("name")
    check_files(source)


_KINDS: dict[str, Callable[[Field], None]] = {
    "emptyDir": _check_empty_directory,
    "hostPath": _check_host_path,
    "gitRepo": _check_git,
    "gcePersistentDisk": _check_disk,
    "awsElasticBlockStore": _check_block_store,
    "secret": _check_secret,
    "nfs": _check_nfs,
    "iscsi": _check_iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _check_flocker,
    "persistentVolumeClaim": _needs("claimName"),
    "rbd": _needs("monitors", "image"),
    "cinder": _check_secret_named("volumeID"),
    "cephfs": _needs("monitors"),
    "quobyte": _check_quobyte,
    "downwardAPI": check_downward_files,
    "fc": _check_fibre_channel,
    "flexVolume": _check_flex,
    "configMap": _check_config_map,
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _check_azure_disk,
    "storageos": _check_storage_os,
    "projected": check_projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _check_csi,
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}
"""The check of each kind of volume, in the order in which the server looks for them."""
