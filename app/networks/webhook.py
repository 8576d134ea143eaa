"""The wing's part in the chain: gathers what one Pod needs and hands it to the planner.

Only Pod CREATE is looked at. Names are checked by the parser before an attachment is looked up; the namespace of the
Pod is the request's, which the API server vouches for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Literal

from app.admission.chain import Plan
from app.admission.pods import INJECT, Pod
from app.admission.review import Request, check_namespace
from app.errors import Denied
from app.kube.lookup import Lookup
from app.networks import selection
from app.networks.device_requests import Mode
from app.networks.model import DEFAULT_NETWORK, NETWORKS, RESOURCE_NAME, Attachment
from app.networks.plan import Inputs
from app.networks.plan import plan as plan_injection
from app.networks.switches import Switches
from app.networks.userdefined import Merged, matching, merge

_NO_NETWORKS = ("NoNetworks", "the Pod selects no networks")


_Search = Generator[tuple[str, str], Attachment | None, list[tuple[str, Attachment]] | None]
"""Yields the namespace and name of an attachment, and is sent what was found: from the cache, or after a GET."""


@dataclass(frozen=True, slots=True)
class NetworksOptions:
    """The settings of the wing; the control switches may override `existing_resources` (see `_mode`)."""

    resource_name_keys: tuple[str, ...] = (RESOURCE_NAME,)
    existing_resources: Mode = "top-up"
    node_selector_conflict: Literal["override", "deny"] = "override"
    default_network_namespace: str = "kube-system"


class NetworksInjector:
    """Injects what a Pod's networks need. Holds no state of its own."""

    name = "networks"

    def __init__(
        self, lookup: Lookup[Attachment], *, switches: Callable[[], Switches], options: NetworksOptions | None = None
    ) -> None:
        self._lookup = lookup
        self._cached = lookup.cached
        self._switches = switches
        self._options = options or NetworksOptions()

    def inject(self, request: Request, plan: Plan) -> Awaitable[None] | None:
        """Plan the injection for the creation of a Pod; leave `plan` untouched for every other request.

        Returns None when that is done, and something to await where the cache does not have all of its networks.
        """
        if not request.creates_pod:
            return None
        pod = request.pod
        return self.inject_pod(pod, namespace=request.namespace or pod.metadata.namespace, plan=plan)

    def inject_pod(self, pod: Pod, *, namespace: str, plan: Plan) -> Awaitable[None] | None:
        """As `inject`, for a Pod that is to be created in `namespace` ("" where that is not known).

        Raises Denied where its author must act, Transient where an attachment or the switches cannot be read.
        """
        skip = _skip(pod)
        if skip is not None:
            plan.skip(*skip)
            return None
        labels, annotations = pod.metadata.labels, pod.metadata.annotations
        if not labels and NETWORKS not in annotations and DEFAULT_NETWORK not in annotations:
            plan.skip(*_NO_NETWORKS)
            return None
        switches = self._switches()
        entries = matching(switches.injections, labels) if switches.injections else []
        if namespace:
            check_namespace(namespace)
        merged = merge(annotations, entries, namespace=namespace)
        search = self._networks(merged, namespace, plan)
        found = None
        try:
            while True:
                wanted = search.send(found)
                found = self._cached(*wanted)
                if found is None:
                    return self._find_and_plan(search, wanted, pod, merged, switches, plan)
        except StopIteration as end:
            self._plan(pod, merged, end.value, switches, plan)
            return None

    async def _find_and_plan(
        self, search: _Search, wanted: tuple[str, str], pod: Pod, merged: Merged, switches: Switches, plan: Plan
    ) -> None:
        """The search from where the cache does not know."""
        try:
            while True:
                wanted = search.send(await self._lookup.find(*wanted))
        except StopIteration as end:
            self._plan(pod, merged, end.value, switches, plan)

    def _plan(
        self, pod: Pod, merged: Merged, networks: list[tuple[str, Attachment]] | None, switches: Switches, plan: Plan
    ) -> None:
        if networks is None:
            plan.skip("NoNamespace", "the namespace of the Pod is not known: its networks cannot be looked up")
            return
        if not networks and not merged.sources:
            plan.skip(*_NO_NETWORKS)
            return
        plan_injection(
            Inputs(
                pod,
                merged,
                tuple(networks),
                self._mode(switches),
                self._options.node_selector_conflict,
                switches.hugepage_down_api,
            ),
            plan,
        )

    def _mode(self, switches: Switches) -> Mode:
        """The ConfigMap decides about `add` where it speaks; without `add` the option's other value applies."""
        configured = self._options.existing_resources
        if switches.honor_existing is None:
            return configured
        if switches.honor_existing:
            return "add"
        return "top-up" if configured == "add" else configured

    def _networks(self, merged: Merged, namespace: str, plan: Plan) -> _Search:
        """The attachments, the default network first; None where an element needs the Pod's namespace and it is ""."""
        networks: list[tuple[str, Attachment]] = []
        text = merged.annotations.get(DEFAULT_NETWORK)
        if text is not None:
            default = yield from self._default_network(text, namespace, plan)
            if default is not None:
                networks.append((DEFAULT_NETWORK, default))
        text = merged.annotations.get(NETWORKS)
        if text:
            for selected in selection.parse(text, annotation=NETWORKS, default_namespace=namespace):
                if not selected.namespace:
                    return None
                attachment = yield selected.namespace, selected.name
                if attachment is None:
                    raise _not_found(selected.namespace, selected.name, NETWORKS)
                networks.append((NETWORKS, attachment))
        return networks

    def _default_network(
        self, text: str, namespace: str, plan: Plan
    ) -> Generator[tuple[str, str], Attachment | None, Attachment | None]:
        """The default network, looked up where Multus does; in the Pod's namespace only where it is not there."""
        selected = selection.parse_default(text, annotation=DEFAULT_NETWORK, default_namespace="")
        if selected is None:
            plan.warnings.append(f"annotation {DEFAULT_NETWORK} is empty: Multus refuses such a Pod; remove it")
            return None
        home = selected.namespace or self._options.default_network_namespace
        attachment = yield home, selected.name
        if attachment is None and not selected.namespace and namespace and namespace != home:
            attachment = yield namespace, selected.name
            if attachment is not None:
                plan.warnings.append(
                    f"annotation {DEFAULT_NETWORK}: {selected.name} is not in namespace {home}, where Multus looks for "
                    f"it; the one in {namespace} is used: write {namespace}/{selected.name}"
                )
        if attachment is None:
            raise _not_found(home, selected.name, DEFAULT_NETWORK)
        return attachment


def _skip(pod: Pod) -> tuple[str, str] | None:
    if pod.spec.host_network:
        return "HostNetwork", "the Pod uses the host's network: Multus attaches nothing to it"
    if pod.mirror:
        return "MirrorPod", "the Pod mirrors a static Pod: it runs already"
    where = pod.opted_out
    return ("OptedOut", f'{where} {INJECT} is "false"') if where else None


def _not_found(namespace: str, name: str, annotation: str) -> Denied:
    key = f"{namespace}/{name}"
    return Denied(
        f"could not find network attachment definition '{key}': could not get Network Attachment Definition {key}: "
        f"the server could not find the requested resource (selected by annotation {annotation})",
        reason="AttachmentNotFound",
    )
