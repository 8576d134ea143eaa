"""What a resource name may be. Pure; other names: `app.kube.names`."""

from __future__ import annotations

from functools import lru_cache

from app.kube.names import check_qualified_name
from app.text import quoted

_CACHED_LENGTH = 512


def resource_name(text: str) -> str:
    """The trimmed name of a device resource; raises ValueError that says what would be right.

    As the API server judges the resources of a container that are not its own (cpu, memory, hugepages): a qualified
    name with a domain, which an extended resource must keep with `requests.` before it, as quotas write it.
    """
    return _resource_name(text if len(text) <= _CACHED_LENGTH else text.strip())


@lru_cache(maxsize=4096)
def _resource_name(text: str) -> str:
    name = text.strip()
    if not name:
        raise ValueError("an empty resource name is not allowed: use a name such as example.com/nic")
    if "/" not in name:
        raise ValueError(f"{quoted(name)} has no domain: use a name such as example.com/nic")
    check_qualified_name(name)
    if "kubernetes.io/" not in name:
        if name.startswith("requests."):
            raise ValueError(f"{quoted(name)} begins with 'requests.': use a name such as example.com/nic")
        check_qualified_name(f"requests.{name}")
    return name
