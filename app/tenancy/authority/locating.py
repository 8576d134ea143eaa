"""Finds the namespace that holds the gateway's CA, for people who did not name one.

A chart keeps the CA in its release's namespace, the command line in `universe`. A second CA, made because the first was
not looked for, would sign bundles that no gateway knows.
"""

from __future__ import annotations

from app.errors import ApiError, UsageError
from app.kube.client import KubeClient
from app.kube.resources import SECRETS
from app.tenancy.authority.ensuring import CA_SECRET
from app.workloads.model import SYSTEM_NAMESPACE, TENANT_NAMESPACE_PREFIX


async def locate_authority(client: KubeClient) -> str:
    """The namespace of the one Secret of the CA's name; `universe` where there is none, or where we may not look.

    Tenants' namespaces are passed over: what is in them says nothing of the gateway. Raises UsageError where there are
    several.
    """
    try:
        page = await client.list_page(SECRETS, field_selector=f"metadata.name={CA_SECRET}")
    except ApiError as error:
        if error.status == 403:
            return SYSTEM_NAMESPACE
        raise
    names = [str(secret["metadata"]["namespace"]) for secret in page.items]
    found = sorted(name for name in names if not name.startswith(TENANT_NAMESPACE_PREFIX))
    if len(found) > 1:
        raise UsageError(f"Secret {CA_SECRET} is in namespaces {', '.join(found)}: say --namespace")
    return found[0] if found else SYSTEM_NAMESPACE
