"""The wing's part in the chain: injects the networks of Pods, and checks attachments.

The injector gathers what one Pod needs and hands it to the planner. Only Pod CREATE is looked at. The namespace of the
Pod is the request's, which the API server vouches for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from app.admission.chain import UNTOUCHED, MutationPlan, refuse
from app.admission.parts import Claimed, Context, Named, Parts
from app.admission.pods import INJECT, MIRROR, Pod
from app.admission.review import Request, check_namespace, written_object
from app.errors import Denied
from app.kube.lookup import Lookup, Steps, follow
from app.kube.resources import CONFIG_MAPS, NETWORK_ATTACHMENTS
from app.networks.device_requests import implicit_in, names_a_class
from app.networks.interfaces import chosen_by
from app.networks.model import (
    DEFAULT_NETWORK,
    INJECTED_RESOURCES,
    NETWORKS,
    Attachment,
    Networks,
    PodNetworks,
    attachment_problems,
    attachment_warnings,
    is_resource_name,
    projection,
)
from app.networks.places import misplaced
from app.networks.plan import NO_NETWORKS, Demand, Inputs, demand_of, plan_alike, plan_demand, plan_networks
from app.networks.podnetinfo import CONTAINER_NAME, VOLUME
from app.networks.selection import Selection
from app.networks.settings import (
    CONFIG_MAP_NAME,
    ControlSwitches,
    NetworksOptions,
    NetworksSettings,
    Switches,
    mode_in_force,
    text_of,
)
from app.settings.source import settings_as
from app.wire import mapping

_MOST_KNOWN = 512
_KNOWN_LENGTH = 1024
"""Characters of annotations whose networks are kept; with the number this bounds the memory."""

_FILES = re.compile(r"(?:/.+)?/spec/volumes/\d+/downwardAPI/items")
"""Where a volume of the Pod gets files of ours."""
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
    return Parts((injector,), (AttachmentCheck(keys, claims=claims),), switches.problems, partial(_injects, switches))


def _injects(switches: Callable[[], Switches], kind: str, name: str) -> bool:
    """Whether networks, or a label of the control switches, can have put it into an object."""
    if kind == "annotations":
        return name == INJECTED_RESOURCES or any(name in entry.annotations for entry in switches().injections)
    if kind == "resources":
        return is_resource_name(name)
    own = {"volumes": name == VOLUME, "env": name == CONTAINER_NAME, "fields": _FILES.fullmatch(name) is not None}
    return own.get(kind, kind == "nodeSelector")


def _claims_on(context: Context) -> bool:
    """Whether the webhook has the wing of claims, and that is on. The wing imports this one, so it is not asked."""
    return bool(getattr(context.settings, "claims", False))


class _Known(NamedTuple):
    """The attachments that a search found, the networks that they are, and what these ask of any Pod."""

    attachments: tuple[Attachment, ...]
    networks: PodNetworks
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
        switches, mode = self._switches(), self._options.existing_resources
        if switches.honor_existing is not None:  # no call for each Pod where the ConfigMap says nothing
            mode = mode_in_force(mode, switches)
        own = (pod.spec.resource_claims and self._claimed) or (self._named and implicit_in(pod))
        beside = bool(own and namespace)
        alike = selects and not beside and not switches.injections
        known = self._known_networks(key) if alike else None
        if known is not None:
            plan.networks = known.networks
            hugepages = switches.hugepage_down_api
            if mode != "add" and plan_alike(pod, known.demand, plan, hugepages=hugepages):
                return None
        if namespace:
            check_namespace(namespace)
        if not selects and not switches.injections:
            plan.skip(*NO_NETWORKS)
            return None
        merged = switches.merged(annotations, labels, namespace=namespace)
        inputs = Inputs(pod, merged, mode, self._options.node_selector_conflict, switches.hugepage_down_api)
        if known is not None:
            plan_demand(inputs, known.demand, plan)
            return None
        return follow(self._search(inputs, key, plan, beside=beside, alike=alike))

    def _known_networks(self, key: _Key) -> _Known | None:
        """Networks that were found before, where the cache still has each of them."""
        known = self._known.get(key)
        if known is None:
            return None
        cached = self._lookup.cached
        for attachment in known.attachments:
            if cached(attachment.namespace, attachment.name) is not attachment:
                return None
        return known

    def _search(self, inputs: Inputs, key: _Key, plan: MutationPlan, *, beside: bool, alike: bool) -> Steps[None]:
        """`beside`: the Pod asks for devices itself, by claims or by the implicit resources of DeviceClasses.

        `alike`: its networks follow from the key, and so do those of other Pods.
        """
        pod, annotations = inputs.pod, inputs.annotations.annotations
        claimed, named = dict[str, int](), dict[str, int]()
        for find in self._claimed if beside else ():
            claimed |= yield from find(pod, key[0])
        networks = yield from self._networks(annotations, key[0], plan)
        if networks:
            plan.networks = PodNetworks(networks, annotations)
            beside = beside or (bool(self._named) and names_a_class(networks))
            for find_named in self._named if beside else ():
                named |= yield from find_named(pod, demand_of(networks).counts)
        # A search that had to warn is made again for each Pod.
        keeps = alike and not beside and plan.finished is UNTOUCHED
        plan_networks(msgspec.structs.replace(inputs, claimed=claimed, named=named), networks, plan)
        if networks and keeps:
            self._keep(key, networks)

    def _keep(self, key: _Key, networks: Networks) -> None:
        if sum(len(text or "") for text in key) > _KNOWN_LENGTH:
            return
        demand = demand_of(networks)
        if demand.kept:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            attachments = dict.fromkeys(attachment for _, attachment in networks)
            self._known[key] = _Known(tuple(attachments), PodNetworks(networks), demand)

    def _networks(self, annotations: Mapping[str, str], namespace: str, plan: MutationPlan) -> Steps[Networks | None]:
        """The networks of a Pod, the default one first; warnings go into the `plan`.

        Returns None where an element needs the Pod's namespace and it is "". Raises Denied for what does not exist.
        """
        networks: list[tuple[str, Attachment]] = []
        default, selections, ignored = chosen_by(annotations, namespace)
        if ignored:
            plan.warnings += ignored
        if default is not None:
            networks.append((DEFAULT_NETWORK, (yield from self._default_network(default, namespace, plan))))
        for selected in selections:
            if not selected.namespace:
                return None
            attachment = yield self._lookup, selected.namespace, selected.name
            if attachment is None:
                raise self._not_found(selected.namespace, selected.name, NETWORKS)
            networks.append((NETWORKS, attachment))
        return tuple(networks)

    def _default_network(self, selected: Selection, namespace: str, plan: MutationPlan) -> Steps[Attachment]:
        """The default network, looked up where Multus does; in the Pod's namespace only where it is not there."""
        home = selected.namespace or self._options.default_network_namespace
        attachment: Attachment | None = yield self._lookup, home, selected.name
        if attachment is None and not selected.namespace and namespace and namespace != home:
            attachment = yield self._lookup, namespace, selected.name
            if attachment is not None:
                plan.warnings.append(
                    f"annotation {DEFAULT_NETWORK}: {selected.name} is not in namespace {home}, where Multus looks for "
                    f"it; the one in {namespace} is used: write {namespace}/{selected.name}"
                )
        if attachment is None:
            raise self._not_found(home, selected.name, DEFAULT_NETWORK)
        return attachment

    def _not_found(self, namespace: str, name: str, annotation: str) -> Denied:
        """Says whether another attachment has this name, and not which: that is not for everybody's eyes."""
        key = f"{namespace}/{name}"
        hint = (
            f"; another namespace has an attachment of this name: write NAMESPACE/{name}"
            if self._lookup.has_name(name)
            else ""
        )
        return Denied(
            f"could not find network attachment definition '{key}': could not get Network Attachment Definition {key}: "
            f"the server could not find the requested resource (selected by annotation {annotation}){hint}",
            reason="AttachmentNotFound",
        )


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
