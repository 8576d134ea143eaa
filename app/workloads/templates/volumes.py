"""The volumes that a tenant's Pod may have. Pure.

Allowed are the types whose content comes from the Pod's own namespace, from images or from the node's scratch space.
Every other type, one that is not known yet among them, makes the kubelet or a driver act on the node or connect from
it (`nfs`, `iscsi`, `gitRepo`), binds storage of others (`ephemeral`), or is as strong as `hostPath` with some drivers
(`csi`): the cloud admin allows it by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.placement.policy import OWN_VOLUMES, TenantPolicy
from app.text import cut
from app.wire import JSON
from app.workloads.templates.marks import each, member, shown

OWN_SOURCES: Final = frozenset({"clusterTrustBundle", "configMap", "downwardAPI", "secret"})
"""Sources of a projected volume that give the Pod no identity in the infra cluster."""
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - how the API server's ServiceAccount plugin names its volume
_TOKEN = "serviceAccountToken"  # noqa: S105 - a field


def forbidden_volumes(spec: Any, path: str, policy: TenantPolicy, *, admitted: bool) -> Iterator[str]:
    """One line for each type of volume, or source of a projected one, that a tenant's Pod may not have."""
    for here, volume in each(spec, "volumes", path):
        yield from _types(volume, here, policy)
        for source_path, source in each(volume.get("projected"), "sources", f"{here}.projected"):
            if not (admitted and _is_default_token(volume, source)):
                yield from _identities(source, source_path)


def _types(volume: JSON, path: str, policy: TenantPolicy) -> Iterator[str]:
    for field, value in volume.items():
        if field == "name" or field in OWN_VOLUMES or value is None:
            continue
        if field == "hostPath":
            yield f"{path}.hostPath: a tenant's Pod may not use files of the host; use another kind of volume"
        elif field == "csi":
            driver = member(value, "driver")
            if not policy.allows("csiDriver", driver):
                advice = policy.advice("csiDriver", whole="the volume")
                yield f"{path}.csi.driver: {shown(driver)} is not allowed in a tenant's Pod; {advice}"
        elif not policy.allows("volumeType", field):
            advice = policy.advice("volumeType", whole="the volume")
            yield f"{path}.{cut(field)}: this type of volume is not allowed in a tenant's Pod; {advice}"


def _identities(source: JSON, path: str) -> Iterator[str]:
    for field, value in source.items():
        if value is not None and field not in OWN_SOURCES:
            yield f"{path}.{cut(field)}: would give the Pod an identity in the infra cluster; leave it out"


def _is_default_token(volume: JSON, source: JSON) -> bool:
    """Whether the ServiceAccount admission plugin made this: a token for the API server, in the plugin's own volume."""
    name, token = volume.get("name"), source.get(_TOKEN)
    if not isinstance(name, str) or not name.startswith(_TOKEN_VOLUME) or not isinstance(token, dict):
        return False
    return not token.get("audience") and all(value is None for field, value in source.items() if field != _TOKEN)
