"""The verdict on a Pod over its networks: whether they exist and can be used, and whether it has what they need.

A Pod that does not exist yet is judged as it would be created.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from app.admission.pods import INJECT
from app.doctor import commands, objects, policies
from app.doctor.catalog import FINDINGS
from app.doctor.cluster import Cluster
from app.doctor.objects import Object
from app.doctor.policies import Served
from app.kube.resources import CONFIG_MAPS, NAMESPACES, NETWORK_ATTACHMENTS, PODS, SERVICES
from app.networks.model import NETWORKS, attachment_problems
from app.networks.why import attachments
from app.networks.why.attachments import networks_settings
from app.networks.why.confined import judge_confinement
from app.networks.why.keys import judge_keys
from app.networks.why.lacking import LACKING, Lack, Planner, changed_later, history, planner_of, remedy
from app.networks.why.makers import Owner, maker_of, owner_of
from app.networks.why.namespaces import LEFT_OUT, judge_namespace
from app.networks.why.selected import Selected, selected_by
from app.networks.why.waiting import judge_waiting
from app.why import calls
from app.why.calls import Unasked, opted_out, unasked
from app.why.installation import uncalled
from app.why.model import Asking, State, Verdict, broken, combined, fine, or_else, read, stuck
from app.wire import JSON

_OVER = ("Succeeded", "Failed")


def judge_pod(it: Object, now: datetime) -> Asking[Verdict | None]:
    """Whether it has its networks, and where it is held, why by them. Of one that has ended or ends, nothing."""
    it = _with_texts(it)
    metadata = it.json["metadata"]
    if metadata.get("deletionTimestamp") or objects.status(it.json).get("phase") in _OVER:
        return None
    selected = yield from selected_by(it)
    if selected is not None and objects.spec(it.json).get("hostNetwork"):
        cause = "it uses the host's network: Multus attaches nothing to it"
        return fine("is not injected", asks=selected.asks, because=(cause,))
    left_out = opted_out(it.json)
    if selected is not None and not _exists(it):
        left_out = yield from unasked(it)
    held = yield from judge_waiting(it, selected if left_out is None else None)
    verdicts = [] if held is None else [held]
    if selected is not None:
        # What it lacks beside does not hold it. Of one to be created, it is said first what would become of it.
        verdicts.insert(len(verdicts) if _exists(it) else 0, (yield from _of_networks(it, now, selected, left_out)))
    verdicts += yield from judge_confinement(it)
    if (misspelt := (yield from judge_keys(it, now))) is not None:
        verdicts.append(misspelt)
    if not verdicts:
        return None
    # What is first there comes last of what is equally bad.
    return combined([fine("", asks=selected.asks if selected else ""), *verdicts])


def _with_texts(it: Object) -> Object:
    """With annotations that are null as an API server stores them."""
    metadata = it.json["metadata"]
    annotations = {key: "" if value is None else value for key, value in (metadata.get("annotations") or {}).items()}
    return Object(it.resource, {**it.json, "metadata": {**metadata, "annotations": annotations}})


def _exists(it: Object) -> bool:
    return bool(it.json["metadata"].get("uid"))


def _is_well(it: Object) -> bool:
    return _exists(it) and objects.waits_for(it.json) is None


def _maker(it: Object) -> Asking[Owner | None]:
    """Who makes the Pod; None of one that is not there yet, and that no controller makes."""
    if owner_of(it.json).kind == PODS.kind and not _exists(it):
        return None
    return (yield from maker_of(it.json))


def _of_networks(it: Object, now: datetime, selected: Selected, left_out: Unasked | None) -> Asking[Verdict]:
    if selected.refused or selected.missing:
        return (yield from _unselectable(it, selected, left_out))
    if (unusable := (yield from _on_broken(it, selected))) is not None:
        return unusable
    if selected.unread:
        if _exists(it):
            return fine("")
        return fine("would be created", because=("its networks could not be read: it may be refused",))
    planner, pod = (yield from _planner(selected)), it.json
    if left_out is not None and left_out.own:
        pod = _without_opt_out(pod)
    lacks = yield from or_else(read(lambda _: planner.networks(pod)), [])
    served = yield from or_else(read(lambda cluster: policies.served_by(cluster, it)), None)
    if not lacks:
        if not _exists(it):
            return fine("would be created")
        return fine(f"is served by {served.name}" if served else "")
    lack = lacks[0]
    if lack.want == "refused":
        return (yield from _unselectable(it, replace(selected, refused=lack.text), left_out))
    injected = None if _exists(it) else (yield from _injected(served, left_out))
    return injected or (yield from _lacking(it, now, selected, lack, left_out))


def _injected(served: Served | None, left_out: Unasked | None) -> Asking[Verdict | None]:
    """Who would inject into a Pod that is not there yet; None where nothing would."""
    # The condition of the webhook that leaves a Pod to policies is none of these.
    left = left_out is not None and (left_out.own or left_out.meant or left_out.whole)
    if served is not None and served.by_policy and not left:
        if served.refused:
            return broken("would be denied", because=(served.refused,))
        return fine(f"would be injected by {served.name}")
    if left_out is not None:
        return None
    if (refusing := (yield from uncalled())) is not None:
        return replace(refusing, text="would be refused: the API server cannot call Berth")
    by = f" by {served.name}" if served is not None else ""
    return fine(f"would be injected{by}" if (yield from calls.are_known()) else "would be created")


def _planner(selected: Selected) -> Asking[Planner]:
    """One that knows what the Pod selects, as it was read."""
    planner = yield from read(planner_of)
    for attachment, _ in selected.distinct:
        planner.learn(NETWORK_ATTACHMENTS, attachment.json)
    if selected.switches is not None:
        planner.learn(CONFIG_MAPS, selected.switches.json)
    return planner


def _without_opt_out(pod: JSON) -> JSON:
    metadata = dict(pod["metadata"])
    for place in ("labels", "annotations"):
        metadata[place] = {key: value for key, value in (metadata.get(place) or {}).items() if key != INJECT}
    return {**pod, "metadata": metadata}


def _unselectable(it: Object, selected: Selected, left_out: Unasked | None) -> Asking[Verdict]:
    """It selects what is not there, or cannot be read."""
    because = (selected.refused,) if selected.refused else tuple(missing.clause for missing in selected.missing)
    owner = yield from _maker(it)
    fix = _correction(owner, selected) if owner is not None else ""
    if not _exists(it):
        text, codes = ("would be denied", ("BERTH1206",)) if left_out is None else ("would not get its networks", ())
        so = FINDINGS["BERTH1206"].consequence if owner is not None and left_out is None else ""
        next_step = "" if fix else f"correct annotation {NETWORKS}, then create it"
        return broken(text, because=because, so=so, fix=fix, next=next_step, codes=codes)
    if selected.refused:
        so = FINDINGS["BERTH1204"].consequence
        return stuck("would be denied today", because=because, so=so, fix=fix, codes=("BERTH1204",))
    # Multus has attached what runs: the attachment was deleted since.
    so = FINDINGS["BERTH1204" if _is_well(it) else "BERTH1203"].consequence
    text = "selects a network that does not exist"
    return broken(text, because=because, so=so, fix=fix, codes=("BERTH1203",))


def _correction(owner: Owner, selected: Selected) -> str:
    """Writes the names that were meant, where they are known for all; opens what makes the Pod where they are not."""
    if (switches := selected.switches) is not None and any(not missing.own for missing in selected.missing):
        return commands.edit(switches.resource, switches.name, namespace=switches.namespace)
    corrected = {missing.annotation: missing.corrected for missing in selected.missing}
    if len(corrected) != 1 or not all(missing.corrected for missing in selected.missing):
        return owner.edit()
    ((annotation, value),) = corrected.items()
    return owner.select(annotation, value)


def _on_broken(it: Object, selected: Selected) -> Asking[Verdict | None]:
    """It waits for attachments that Multus cannot attach. One that runs has been attached."""
    keys = (yield from read(networks_settings)).resource_name_keys
    problems = [
        (attachment, problem)
        for attachment, _ in ([] if _is_well(it) else selected.distinct)
        for problem in attachment_problems(attachment.json, keys)
    ]
    if not problems:
        return None
    first, _ = problems[0]
    return broken(
        "" if _exists(it) else "would not start",
        because=tuple(f"{attachment.subject}: {problem}" for attachment, problem in problems),
        so="Multus cannot attach it: it stays in ContainerCreating",
        fix=commands.edit(NETWORK_ATTACHMENTS, first.name, namespace=first.namespace) if _exists(first) else "",
        codes=("BERTH1101",),
    )


def _lacking(it: Object, now: datetime, selected: Selected, lack: Lack, left_out: Unasked | None) -> Asking[Verdict]:
    left_out = left_out or (yield from unasked(it))
    if left_out is not None and (left_out.own or (left_out.whole and lack.want == "information")):
        text = "not injected" if _exists(it) else "would be created, not injected"
        state = State.fine if _is_well(it) or not _exists(it) else State.stuck
        return Verdict(state, text, because=(left_out.cause,), codes=left_out.codes)
    (severity, code), fixes, next_step = LACKING[lack.want], list[str](), ""
    because, codes = tuple[str, ...](), [code]
    if left_out is None:
        because = tuple((yield from _not_injected(it, now, selected, lack)))
    else:
        code = LEFT_OUT if left_out.whole else code
        because, codes = (left_out.cause,), [code, *left_out.codes]
        fixes.append(left_out.fix)
    anew = lack.want == "information" or changed_later(it.json, lack)
    text = f"lacks {lack.text}" if anew else f"NOT injected; it lacks {lack.text}"
    if not _exists(it):
        text = f"would be created, NOT injected; it would lack {lack.text}"
    elif (owner := (yield from _maker(it))) is not None:
        command = yield from read(lambda cluster: remedy(cluster, owner, lack, [it.name]))
        fixes.append(command)
        next_step = owner.again
    state, fix = State.broken if severity.name == "error" else State.stuck, "\n".join(filter(None, fixes))
    so = FINDINGS[code].consequence
    return Verdict(state, text, because=because, so=so, fix=fix, next=next_step, codes=tuple(codes))


def _not_injected(it: Object, now: datetime, selected: Selected, lack: Lack) -> Asking[list[str]]:
    """Why it was not injected into although Berth is asked about it, as far as it shows itself, and dates show."""
    created = objects.created(it.json)
    causes = list(_changed_since(created, now, selected)) if created else []
    if _exists(it) and (changed := changed_later(it.json, lack)):
        return [changed, *causes]
    since = yield from or_else(read(_registered_since), None)
    if not causes and (text := history(1, int(since is not None and created is not None and created < since), since)):
        causes.append(f"it was {text.removeprefix(': ')}")
    return causes or ["Berth did not inject into it when it was created"]


def _changed_since(created: datetime, now: datetime, selected: Selected) -> Iterator[str]:
    for attachment, _ in selected.distinct:
        made = objects.created(attachment.json)
        if made is not None and made > created:
            yield f"attachment {attachment.namespace}/{attachment.name} was created after it"
        elif objects.unchanged(attachment.json, now) < (now - created).total_seconds():
            yield f"attachment {attachment.namespace}/{attachment.name} was changed after it was created"


async def _registered_since(cluster: Cluster) -> datetime | None:
    webhooks = await calls.injecting(cluster)
    return min((when for webhook in webhooks if (when := objects.created(webhook.configuration))), default=None)


JUDGES = {PODS: judge_pod, NAMESPACES: judge_namespace, SERVICES: judge_keys, **attachments.JUDGES}
