"""The wing's part in the chain: gathers what one Pod needs and hands it to the planner.

Only Pod CREATE is looked at. The namespace of the Pod is the request's, which the API server vouches for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from app.admission.chain import Plan
from app.admission.parts import Claimed
from app.admission.pods import INJECT, Pod
from app.admission.review import Request, check_namespace
from app.kube.lookup import Lookup, Steps, follow
from app.networks.attachments import Search, looked_up, networks_of
from app.networks.model import DEFAULT_NETWORK, NETWORKS, Attachment, Mode
from app.networks.options import NetworksOptions
from app.networks.plan import NO_NETWORKS, Inputs, plan_networks
from app.networks.switches import Switches


class NetworksInjector:
    """Injects what a Pod's networks need. Holds no state of its own.

    `lookup` finds attachments. Without a client (manifests) what is not cached does not exist. `claimed` find the
    resources that the Pod's own claims serve; these are not injected.
    """

    name = "networks"

    def __init__(
        self,
        lookup: Lookup[Attachment],
        *,
        switches: Callable[[], Switches],
        options: NetworksOptions | None = None,
        claimed: Sequence[Claimed] = (),
    ) -> None:
        self._lookup = lookup
        self._cached = lookup.cached
        self._switches = switches
        self._options = options or NetworksOptions()
        self._claimed = claimed

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
            plan.skip(*NO_NETWORKS)
            return None
        switches, options = self._switches(), self._options
        if namespace:
            check_namespace(namespace)
        inputs = Inputs(
            pod,
            switches.merged(annotations, labels, namespace=namespace),
            self._mode(switches),
            options.node_selector_conflict,
            switches.hugepage_down_api,
        )
        search = networks_of(
            inputs.annotations.annotations, namespace, home=options.default_network_namespace, warnings=plan.warnings
        )
        if pod.spec.resource_claims and self._claimed and namespace:
            return follow(self._beside_claims(search, inputs, namespace, plan))
        found = None
        try:
            while True:
                wanted = search.send(found)
                found = self._cached(*wanted)
                if found is None:
                    return self._find_and_plan(search, wanted, inputs, plan)
        except StopIteration as end:
            plan_networks(inputs, end.value, plan)
            return None

    async def _find_and_plan(self, search: Search, wanted: tuple[str, str], inputs: Inputs, plan: Plan) -> None:
        """The search from where the cache does not know."""
        try:
            while True:
                wanted = search.send(await self._lookup.find(*wanted))
        except StopIteration as end:
            plan_networks(inputs, end.value, plan)

    def _beside_claims(self, search: Search, inputs: Inputs, namespace: str, plan: Plan) -> Steps:
        claimed: dict[str, int] = {}
        for find in self._claimed:
            claimed |= yield from find(inputs.pod, namespace)
        networks = yield from looked_up(search, self._lookup)
        plan_networks(msgspec.structs.replace(inputs, claimed=claimed), networks, plan)

    def _mode(self, switches: Switches) -> Mode:
        """The ConfigMap decides about `add` where it speaks; without `add` the option's other value applies."""
        configured = self._options.existing_resources
        if switches.honor_existing is None:
            return configured
        if switches.honor_existing:
            return "add"
        return "top-up" if configured == "add" else configured


def _skip(pod: Pod) -> tuple[str, str] | None:
    if pod.spec.host_network:
        return "HostNetwork", "the Pod uses the host's network: Multus attaches nothing to it"
    if pod.mirror:
        return "MirrorPod", "the Pod mirrors a static Pod: it runs already"
    where = pod.opted_out
    return ("OptedOut", f'{where} {INJECT} is "false"') if where else None
