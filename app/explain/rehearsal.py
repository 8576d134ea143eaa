"""Reviews as the webhook would decide them, outside of it: its own parts, over caches that are filled once."""

from __future__ import annotations

import msgspec

from app.admission.chain import Chain, Reviewed
from app.admission.parts import Context, ReviewCaches, chains
from app.admission.review import GroupVersionKind, GroupVersionResource, WholeRequest
from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.resources import Resource
from app.kube.retry import get_or_none
from app.kube.store import Key
from app.registry import parts_of, reviews_of
from app.settings.source import RoleSettings
from app.wire import JSON, encode_json


class Rehearsal:
    """What a webhook with these settings in this namespace decides, once `caches` are filled.

    `chains` are those that answer `/mutate` and `/validate`, `alone` has each injector by itself, `validated` are the
    kinds of which cached objects are checked. Without `client` the caches are all there is; whose a namespace is, they
    alone say in any case.
    """

    def __init__(self, settings: RoleSettings, namespace: str, client: KubeClient | None = None) -> None:
        self.settings, self.namespace = settings, namespace
        self.caches = ReviewCaches()
        self.caches.client = client
        self.parts = parts_of(Context(settings, namespace, self.caches))
        self.chains = chains(self.parts, namespace=namespace)
        checked = {plural for rule in reviews_of("attachments", "objects") for plural in rule.resources}
        self.validated = [cached.resource.kind for cached in self.caches.all if cached.resource.plural in checked]
        self.alone = {injector.name: Chain(injectors=[injector]) for part in self.parts for injector in part.injectors}

    def of_all_wings(self) -> Rehearsal:
        """The same with the wings that are off: who writes an object for one means to use it."""
        backend = getattr(self.settings, "rmd_backend", "")
        changes = {"claims": True, "rmd_backend": backend if backend == "daemon" else "auto"}
        return Rehearsal(self.settings.model_copy(update=changes), self.namespace, self.caches.client)


async def live(rehearsal: Rehearsal, resource: Resource, key: Key, notes: list[str]) -> JSON | None:
    """An object of the cluster, None without a cluster; of a right that its user lacks there is a note."""
    if (client := rehearsal.caches.client) is None:
        return None
    try:
        return await get_or_none(client, resource, key[1], namespace=key[0])
    except ApiError as refusal:
        if refusal.status != 403:
            raise
        note = f"{resource.kind} {key[0]}/{key[1]}: you have no right to get it: taken as if it were not there"
        if note not in notes:
            notes.append(note)
        return None


def unread(fault: Transient) -> str:
    """What a review could not read because its user has no right to, as a clause; "" for any other fault."""
    cause = fault.__cause__
    if not isinstance(cause, ApiError) or cause.status != 403:
        return ""
    return f"{str(fault).removesuffix(f': {cause}')}: you have no right to get it"


async def review(chain: Chain, obj: JSON, *, namespace: str) -> Reviewed:
    """What the chain decides about the creation of an object. Raises Transient where no decision can be made."""
    group, _, version = str(obj.get("apiVersion") or "v1").rpartition("/")
    kind, name = str(obj.get("kind") or "Pod"), obj["metadata"].get("name", "")
    request = WholeRequest(
        uid="explain",
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, f"{kind.lower()}s"),
        name=name if isinstance(name, str) else "",
        namespace=namespace,
        dry_run=True,
        object=msgspec.Raw(encode_json(obj)),
    )
    return await chain.review(request)
