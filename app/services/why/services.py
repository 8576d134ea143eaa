"""The verdict on a Service on a secondary network: which endpoints it has there, and why Pods are none.

They are planned by what the controller plans them with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from app.claims.settings import ControllerSettings
from app.claims.why.publishers import NOT_SERVED, WITHOUT_ADDRESS, WITHOUT_ATTACHMENT, WITHOUT_PODS
from app.doctor import commands
from app.doctor.catalog import listed as several_of
from app.doctor.catalog import plain
from app.doctor.objects import Object
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, SERVICES
from app.kube.selectors import LabelSelector, Requirement
from app.networks.model import NETWORKS
from app.networks.why.makers import maker_of
from app.services.addresses import Reason
from app.services.caches import stored_service
from app.services.model import ASKING, NETWORK, NO_PODS, SELECTOR, Service, Wish, not_attached
from app.services.planning import ServicePlan, plan_service, problems_of
from app.services.why.reading import (
    Attachments,
    Seen,
    absence_of_controller,
    attachments_beside,
    inputs_of,
    pods_in,
    settings_of,
)
from app.text import closest, several
from app.why.model import (
    Asking,
    State,
    Verdict,
    absence,
    broken,
    fine,
    judged,
    once,
    read,
    stuck,
    told,
)
from app.why.standing import describe

_GENERATED = ("-hash", "-generation", "/pod-index", "/pod-name", "-uid", "/job-completion-index")
"""How keys of labels end whose values differ from Pod to Pod, or with each version of a template."""
_JUDGED = 50
"""Pods that are judged for all Services of one examination: the chain behind each is long."""
_PASSING: dict[Reason, str] = {
    "NoNetworkStatus": "not attached yet",
    "NoNode": "it has no node yet",
    "NoAddress": "it has no address there yet",
}
_LASTING: dict[Reason, str] = {
    "HostNetwork": "it uses the network of its node",
    "BadNetworkStatus": "its network status cannot be read",
    "BadAddress": "it has no address there that an EndpointSlice may have",
}
"""Why Pods are no endpoints, where no Event says it."""


def judge_service(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Which endpoints it has on its network; None of a Service that asks for none."""
    service = stored_service(it.json)
    if service is None:
        return _without_network(it)
    if service.problem is not None:
        # Of one that is not refused, the message says what becomes of the EndpointSlices that it has.
        so = "it gets no EndpointSlices" if service.problem.refused else ""
        return broken("cannot be served", because=(service.problem.message,), so=so, fix=_edit(it), codes=(NOT_SERVED,))
    verdict = (yield from _served(it, service, service.wish)) if service.wish else None
    if verdict is None or service.uid:
        return None if verdict is None else (yield from _kept(verdict))
    return verdict if verdict.state is State.broken else fine("would be created", asks=verdict.asks)


def _without_network(it: Object) -> Verdict | None:
    """Of one that has a selector of ours all the same, what is wrong."""
    annotations = it.json["metadata"].get("annotations") or {}
    if SELECTOR not in annotations:
        return None
    meant = {key: closest(key, ASKING) for key in annotations if key != SELECTOR and closest(key, ASKING)}
    hints = [f"; it has {plain(key)}, which was probably meant to be {near}" for key, near in sorted(meant.items())]
    cause = f"it has annotation {SELECTOR}, and none of {', '.join(sorted(ASKING))}{''.join(hints[:1])}"
    return stuck("asks for no network", because=(cause,), fix=_edit(it))


def _served(it: Object, service: Service, wish: Wish) -> Asking[Verdict]:
    settings = yield from settings_of()
    asks = f"Pods with {wish.pods} in {it.namespace}, on {_place(wish)}"
    attachments = yield from attachments_beside(wish, settings)
    if wish.network and attachments is not None and wish.network not in attachments:
        return (yield from _without_attachment(it, wish, asks))
    verdict = yield from _over_pods(it, service, wish, attachments, settings)
    if attachments is None and verdict.state and (absent := (yield from told(it, ("AttachmentNotFound",)))):
        # The controller has read what the user may not, and told it.
        because, codes = (absent, *verdict.because), (WITHOUT_ATTACHMENT, *verdict.codes)
        verdict = replace(verdict, state=State.broken, because=because, fix=_edit(it), codes=codes)
    return replace(verdict, asks=asks)


def _over_pods(
    it: Object, service: Service, wish: Wish, attachments: Attachments | None, settings: ControllerSettings
) -> Asking[Verdict]:
    pods = yield from pods_in(it.namespace, settings.default_network_namespace)
    selected = [seen for seen in pods if wish.pods.matches(seen.labels)]
    if not selected:
        return _without_pods(it, wish, pods)
    stored = tuple(seen.pod for seen in selected if seen.pod is not None)
    inputs, complete = yield from inputs_of(service, wish, stored, attachments, settings)
    plan = plan_service(inputs)
    verdict = yield from _planned(it, service, wish, plan, selected)
    if complete and (plan.create or plan.change):
        verdict = yield from _unwritten(it, verdict)
    return verdict


def _without_attachment(it: Object, wish: Wish, asks: str) -> Asking[Verdict]:
    namespace, _, name = wish.network.partition("/")
    clause, near = yield from absence(NETWORK_ATTACHMENTS, name, namespace)
    fix = _edit(it)
    if near:
        value = near if namespace == it.namespace else f"{namespace}/{near}"
        fix = _annotate(it, NETWORK, value)
    return broken(_counted(0, wish), asks=asks, because=(clause,), fix=fix, codes=(WITHOUT_ATTACHMENT,))


def _without_pods(it: Object, wish: Wish, pods: Sequence[Seen]) -> Verdict:
    """No Pod has the selector: which one those on the network have, or one that is spelled alike."""
    causes = [f"no Pod in {it.namespace} has {wish.pods} ({SELECTOR})"]
    there = [
        seen for seen in pods if seen.pod is not None and (wish.device or wish.network in (seen.pod.attached or ()))
    ]
    (meant, count), where = _meant(wish.pods, there), f" on {_place(wish)}" * (not wish.device)
    if not meant and not there and (alike := closest(str(wish.pods), texts := _amended(wish.pods, pods))):
        meant, count, where = alike, texts[alike], ""
    if meant:
        causes.append(f"{several(count, 'Pod')}{where} {'has' if count == 1 else 'have'} {meant}")
    if not there:
        causes.append(
            f"no Pod in {it.namespace} is on {_place(wish)}" if not wish.device else "no Pod has a ResourceClaim"
        )
    fix = _annotate(it, SELECTOR, meant) if meant else _edit(it)
    more = commands.kubectl("get", "pods", "--show-labels", namespace=it.namespace)
    codes = (WITHOUT_PODS,)
    return stuck(_counted(0, wish), because=tuple(causes), fix=fix, codes=codes, more=more)


def _meant(selector: LabelSelector, pods: Sequence[Seen]) -> tuple[str, int]:
    """The selector that was probably meant, and how many of the Pods it selects; "" where nothing says it."""
    texts = _amended(selector, pods)
    if near := closest(str(selector), texts):
        return near, texts[near]
    labels = texts or Counter(
        f"{key}={value}" for seen in pods for key, value in sorted(seen.labels.items()) if not key.endswith(_GENERATED)
    )
    return labels.most_common(1)[0] if labels else ("", 0)


def _amended(selector: LabelSelector, pods: Sequence[Seen]) -> Counter[str]:
    """The selector with the values that Pods have where it fails, by how many have these."""
    texts: Counter[str] = Counter()
    for seen in pods:
        requirements = [_fitting(requirement, seen.labels) for requirement in selector.requirements]
        if requirements and all(requirements):
            texts[",".join(map(str, requirements))] += 1
    return texts


def _fitting(requirement: Requirement, labels: dict[str, str]) -> Requirement | None:
    """The requirement, with the value of these labels where it fails; None where they have none."""
    if requirement.matches(labels):
        return requirement
    value = labels.get(requirement.key) if requirement.operator == "In" else None
    return Requirement(requirement.key, "In", frozenset({value})) if value else None


def _planned(it: Object, service: Service, wish: Wish, plan: ServicePlan, selected: Sequence[Seen]) -> Asking[Verdict]:
    """How many endpoints there are, and of the other Pods why they are none."""
    text = _counted(plan.ready + plan.unready, wish) + (f", {plan.unready} not ready" if plan.unready else "")
    verdict, skipped = Verdict(State.fine, text, more=describe(it)), dict(plan.skipped)
    unattached = [seen for seen in selected if seen.pod is None or skipped.get(seen.name) == "NotAttached"]
    away = [seen for seen in unattached if wish.network not in (seen.selects or ())]
    causes, fix, next_step = list[str](), "", ""
    if away and wish.device:
        causes.append(not_attached(wish, several_of([seen.name for seen in away])).message)
    elif away:
        causes.append(f"{_names(away)}: not on {_place(wish)}: {_selecting(away[0])}")
        fix, next_step = yield from _select(away[0], wish.network)
    lost = [seen for seen in unattached if seen not in away and seen.pod is not None and seen.pod.ready]
    if lost:
        causes.append(f"{_names(lost)}: selected {_place(wish)}, and the network status that Multus wrote lacks it")
    problems = problems_of(service, wish, plan, attached=True)
    causes += [problem.message for problem in problems if problem.reason not in ("PodsNotAttached", NO_PODS)]
    causes += _skipped(plan, _LASTING)
    if causes:
        because, codes = tuple(causes), (WITHOUT_ADDRESS,)
        return replace(verdict, state=State.stuck, because=because, fix=fix, next=next_step, codes=codes)
    if plan.ready and not unattached:
        return verdict
    return (yield from _waiting(it, verdict, plan, [seen for seen in selected if not (seen.pod and seen.pod.ready)]))


def _waiting(it: Object, verdict: Verdict, plan: ServicePlan, unready: Sequence[Seen]) -> Asking[Verdict]:
    """Its Pods are on their way: the first that is not ready says why."""
    verdict = replace(verdict, state=State.waits, because=tuple(_skipped(plan, _PASSING)))
    if plan.ready or not unready or next((yield from once("Pods of Services", _counter))) >= _JUDGED:
        return verdict
    of_pod = yield from judged(PODS, unready[0].name, it.namespace)
    if of_pod is None or not of_pod.state:
        return verdict
    codes = (WITHOUT_ADDRESS,) if of_pod.state > State.waits else ()
    verdict = replace(verdict, state=of_pod.state, codes=codes)
    return verdict.after(of_pod, of=f"Pod {it.namespace}/{unready[0].name}")


def _counter() -> Asking[Iterator[int]]:
    yield from ()
    return count()


def _unwritten(it: Object, verdict: Verdict) -> Asking[Verdict]:
    """Its EndpointSlices are not what they should be: the API server refuses them, or they are written soon."""
    refused = yield from told(it, ("EndpointSliceRefused",))
    if not refused:
        cause, state, codes = "its EndpointSlices are not written yet", State.waits, verdict.codes
    else:
        cause = f"the API server refuses its EndpointSlices: {refused}"
        state, codes = State.stuck, (*verdict.codes, WITHOUT_ADDRESS)
    because = (*verdict.because, cause)
    return replace(verdict, state=max(verdict.state, state), because=because, codes=tuple(dict.fromkeys(codes)))


def _kept(verdict: Verdict) -> Asking[Verdict]:
    """With the controller that keeps its EndpointSlices, where that is seen not to run."""
    absent = yield from read(absence_of_controller)
    if absent is None:
        return verdict
    cause, fix, codes = absent
    so = verdict.so or "its EndpointSlices are not written, or stay as they are"
    because = (*verdict.because, cause)
    return replace(
        verdict,
        state=State.broken,
        because=because,
        so=so,
        fix="\n".join(filter(None, (verdict.fix, fix))),
        codes=(*verdict.codes, *codes),
    )


def _skipped(plan: ServicePlan, texts: dict[Reason, str]) -> Iterator[str]:
    for reason, text in texts.items():
        if names := [name for name, why in plan.skipped if why == reason]:
            yield f"Pod{'s' * (len(names) > 1)} {several_of(names)}: {text}"


def _names(pods: Sequence[Seen]) -> str:
    return f"Pod{'s' * (len(pods) > 1)} {several_of([seen.name for seen in pods])}"


def _selecting(seen: Seen) -> str:
    if seen.selects is None:
        return f"annotation {NETWORKS} of {seen.name} cannot be read"
    return f"{seen.name} selects {', '.join(sorted(seen.selects)) or 'no network'} ({NETWORKS})"


def _counted(count: int, wish: Wish) -> str:
    return f"{several(count, 'endpoint')} on {_place(wish)}"


def _place(wish: Wish) -> str:
    return f"network {wish.network}" if wish.network else str(wish.device)


def _select(seen: Seen, network: str) -> Asking[tuple[str, str]]:
    """The command by which the Pods like this one select a network too, and what is to be done by hand."""
    maker = yield from maker_of({"metadata": seen.made})
    selected = seen.made["annotations"][NETWORKS].strip()
    if not maker.is_restarted or selected.startswith("["):
        return maker.edit(), maker.change(f"select {network} in annotation {NETWORKS}")
    return maker.select(NETWORKS, ", ".join(filter(None, (selected, network)))), ""


def _annotate(it: Object, key: str, value: str) -> str:
    return commands.kubectl("annotate", "service", it.name, f"{key}={value}", "--overwrite", namespace=it.namespace)


def _edit(it: Object) -> str:
    return commands.edit(SERVICES, it.name, namespace=it.namespace)


JUDGES = {SERVICES: judge_service}
