"""The wing's part in the chain: injects the networks of Pods, and checks attachments.

The injector gathers what one Pod needs and hands it to the planner. Only Pod CREATE is looked at. The namespace of the
Pod is the request's, which the API server vouches for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from app.admission.chain import UNTOUCHED, MutationPlan, refuse
from app.admission.parts import Claimed, Context, Named, Parts
from app.admission.pods import INJECT, MIRROR, Pod
from app.admission.review import Request, check_namespace, written_object
from app.kube.lookup import Lookup, Steps, follow
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks.device_requests import implicit_in, names_a_class
from app.networks.interfaces import Search, looked_up, networks_of
from app.networks.model import (
    DEFAULT_NETWORK,
    NETWORKS,
    Attachment,
    Mode,
    Networks,
    attachment_problems,
    attachment_warnings,
    projection,
)
from app.networks.places import misplaced
from app.networks.plan import NO_NETWORKS, Demand, Inputs, demand_of, plan_alike, plan_demand, plan_networks
from app.networks.settings import CONFIG_MAP_NAME, ControlSwitches, NetworksOptions, NetworksSettings, Switches, text_of
from app.pace import at_pace
from app.settings.source import settings_as
from app.wire import mapping

_MOST_COMPARED = 10_000
_MOST_KNOWN = 512
_KNOWN_LENGTH = 1024
"""Characters of annotations whose networks are kept; with the number this bounds the memory."""

_Key = tuple[str, str | None, str | None]
"""The namespace of a Pod, and its annotations about networks."""


def review(context: Context) -> Parts:
    """The injection of networks, and the check of attachments."""
    settings, caches = settings_as(context.settings, NetworksSettings), context.caches
    keys, claims = settings.resource_name_keys, _claims_on(context)
    # With the same function the wing of claims gets the same cache.
    project = projection(keys, claims=claims)
    attachments = caches.lookup(
        NETWORK_ATTACHMENTS, project, called="network attachment definition", field="metadata.annotations"
    )
    switches = ControlSwitches(
        caches.cache(CONFIG_MAPS, text_of, only=(context.namespace, CONFIG_MAP_NAME)),
        namespace=context.namespace,
        initial=settings.initial_switches,
        logs=context.logs,
    )
    injector = NetworksInjector(
        attachments, switches=switches, options=settings.networks_options, claimed=context.claimed, named=context.named
    )
    context.pod_injectors.append(injector)
    return Parts((injector,), (AttachmentCheck(keys, claims=claims),), switches.problems)


def _claims_on(context: Context) -> bool:
    """Whether the webhook has the wing of claims, and that is on. The wing imports this one, so it is not asked."""
    return bool(getattr(context.settings, "claims", False))


class _Known(NamedTuple):
    """What a search looked up, with what it found, and what the networks ask of any Pod."""

    found: tuple[tuple[tuple[str, str], Attachment], ...]
    demand: Demand


class NetworksInjector:
    """Injects what a Pod's networks need.

    `lookup` finds attachments. Without a client (manifests) what is not cached does not exist. `claimed` find the
    resources that the Pod's own claims serve; these are not injected. `named` find those that other names serve. What
    was found for annotations is kept, and counts for as long as the cache has the very same attachments.
    """

    name = "networks"

    def __init__(
        self,
        lookup: Lookup[Attachment],
        *,
        switches: Callable[[], Switches],
        options: NetworksOptions | None = None,
        claimed: Sequence[Claimed] = (),
        named: Sequence[Named] = (),
    ) -> None:
        self._lookup = lookup
        self._cached = lookup.cached
        self._switches = switches
        self._options = options or NetworksOptions()
        self._claimed, self._named = claimed, named
        self._known: dict[_Key, _Known] = {}

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Plan the injection for the creation of a Pod; leave `plan` untouched for every other request.

        Returns None when that is done, and something to await where the cache does not have all of its networks.
        """
        if not request.creates_pod:
            return None
        pod = request.pod
        return self.inject_pod(pod, namespace=request.namespace or pod.metadata.namespace, plan=plan)

    def inject_pod(self, pod: Pod, *, namespace: str, plan: MutationPlan) -> Awaitable[None] | None:
        """As `inject`, for a Pod that is to be created in `namespace` ("" where that is not known).

        Raises Denied where its author must act, Transient where an attachment or the switches cannot be read.
        """
        labels, annotations = pod.metadata.labels, pod.metadata.annotations
        if pod.spec.host_network or MIRROR in annotations or INJECT in annotations or INJECT in labels:
            skip = _skip(pod)
            if skip is not None:
                plan.skip(*skip)
                return None
        key = namespace, annotations.get(NETWORKS), annotations.get(DEFAULT_NETWORK)
        selects = key[1] is not None or key[2] is not None
        if not labels and not selects:
            plan.skip(*NO_NETWORKS)
            return None
        switches, configured = self._switches(), self._options.existing_resources
        mode = configured if switches.honor_existing is None else _mode(configured, add=switches.honor_existing)
        beside = (pod.spec.resource_claims and self._claimed) or (self._named and implicit_in(pod))
        claims = beside and namespace
        demand = None
        if selects and not claims and not switches.injections:
            demand = self._known_demand(key)
            if (
                demand is not None
                and mode != "add"
                and plan_alike(pod, demand, plan, hugepages=switches.hugepage_down_api)
            ):
                return None
        if namespace:
            check_namespace(namespace)
        if not selects and not switches.injections:
            plan.skip(*NO_NETWORKS)
            return None
        merged = switches.merged(annotations, labels, namespace=namespace)
        inputs = Inputs(pod, merged, mode, self._options.node_selector_conflict, switches.hugepage_down_api)
        if demand is not None:
            plan_demand(inputs, demand, plan)
            return None
        return follow(self._beside_claims(inputs, namespace, plan)) if claims else self._search(inputs, namespace, plan)

    def _known_demand(self, key: _Key) -> Demand | None:
        """What networks ask for that were found before, where the cache still has each of them."""
        demand = self._known.get(key)
        if demand is None:
            return None
        for (namespace, name), attachment in demand.found:
            if self._cached(namespace, name) is not attachment:
                return None
        return demand.demand

    def _search(self, inputs: Inputs, namespace: str, plan: MutationPlan) -> Awaitable[None] | None:
        search = self._networks(inputs, namespace, plan)
        attachment, everything = None, dict[tuple[str, str], Attachment]()
        try:
            while True:
                key = search.send(attachment)
                attachment = self._cached(*key)
                if attachment is None:
                    return self._find_and_plan(search, key, inputs, plan)
                everything[key] = attachment
        except StopIteration as end:
            networks: Networks | None = end.value
        if self._has_other_names(networks):
            return follow(self._beside_names(inputs, networks, plan))
        # A search that had to warn is made again for each Pod.
        keeps = bool(networks) and plan.finished is UNTOUCHED
        plan_networks(inputs, networks, plan)
        if networks and keeps:
            annotations = inputs.annotations.annotations
            self._keep((namespace, annotations.get(NETWORKS), annotations.get(DEFAULT_NETWORK)), everything, networks)
        return None

    def _keep(self, key: _Key, attachments: dict[tuple[str, str], Attachment], networks: Networks) -> None:
        if sum(len(text or "") for text in key) > _KNOWN_LENGTH:
            return
        demand = demand_of(networks)
        if demand.kept:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = _Known(tuple(attachments.items()), demand)

    def _networks(self, inputs: Inputs, namespace: str, plan: MutationPlan) -> Search:
        home = self._options.default_network_namespace
        annotations = inputs.annotations.annotations
        return networks_of(annotations, namespace, home=home, plan=plan, elsewhere=self._is_anywhere)

    def _is_anywhere(self, name: str) -> bool:
        """Whether one of the first attachments has this name."""
        return any(other == name for _, other in islice(self._lookup.keys(), _MOST_COMPARED))

    async def _find_and_plan(self, search: Search, key: tuple[str, str], inputs: Inputs, plan: MutationPlan) -> None:
        """The search from where the cache does not know."""
        try:
            while True:
                key = search.send(await self._lookup.find(*key))
        except StopIteration as end:
            networks: Networks | None = end.value
        if not self._has_other_names(networks):
            await at_pace(partial(plan_networks, inputs, networks, plan))
        elif (planned := follow(self._beside_names(inputs, networks, plan))) is not None:
            await planned

    def _beside_claims(self, inputs: Inputs, namespace: str, plan: MutationPlan) -> Steps[None]:
        claimed: dict[str, int] = {}
        for find in self._claimed:
            claimed |= yield from find(inputs.pod, namespace)
        networks = yield from looked_up(self._networks(inputs, namespace, plan), self._lookup)
        yield from self._beside_names(msgspec.structs.replace(inputs, claimed=claimed), networks, plan)

    def _has_other_names(self, networks: Networks | None) -> bool:
        """Whether containers may ask by other names for devices of networks that were found."""
        return bool(networks) and bool(self._named) and names_a_class(networks or ())

    def _beside_names(self, inputs: Inputs, networks: Networks | None, plan: MutationPlan) -> Steps[None]:
        named: dict[str, int] = {}
        if networks:
            needs = demand_of(networks).counts
            for find in self._named:
                named |= yield from find(inputs.pod, needs)
        plan_networks(msgspec.structs.replace(inputs, named=named), networks, plan)


def _mode(configured: Mode, *, add: bool) -> Mode:
    """The ConfigMap decides about `add` where it speaks; without `add` the option's other value applies."""
    if add:
        return "add"
    return "top-up" if configured == "add" else configured


def _skip(pod: Pod) -> tuple[str, str] | None:
    if pod.spec.host_network:
        return "HostNetwork", "the Pod uses the host's network: Multus attaches nothing to it"
    if pod.mirror:
        return "MirrorPod", "the Pod mirrors a static Pod: it runs already"
    where = pod.opted_out
    return ("OptedOut", f'{where} {INJECT} is "false"') if where else None


class AttachmentCheck:
    """Refuses broken NetworkAttachmentDefinitions on CREATE and UPDATE, so that a broken one is not found by a Pod.

    What Multus and the CNI library would refuse later is refused here, all of it in one message with the field paths.
    Neutral to everything else.

    An attachment that is being deleted is left alone, so that its finalizers can be removed.
    """

    def __init__(self, resource_name_keys: Sequence[str], *, claims: bool = False) -> None:
        self._keys, self._claims = tuple(resource_name_keys), claims

    def check(self, request: Request, plan: MutationPlan) -> None:
        """Raise Denied with every problem of the attachment; warn where only some Pods can select it."""
        kind, resource = request.kind, NETWORK_ATTACHMENTS
        if (kind.group, kind.kind) != (resource.group, resource.kind):
            return
        obj = written_object(request, reason="UnreadableAttachment")
        if obj is None:
            return
        problems = attachment_problems(obj, self._keys, claims=self._claims)
        refuse(problems, reason="BrokenAttachment")
        plan.warnings += attachment_warnings(obj, self._keys, claims=self._claims)
        plan.warnings += (finding.text for finding in misplaced(obj.get("metadata"), "metadata", resource.kind))
        if "." in str(mapping(obj.get("metadata")).get("name") or ""):
            plan.warnings.append("metadata.name: a name with dots can be selected in the JSON form only")
