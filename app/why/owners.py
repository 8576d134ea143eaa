"""The verdict on what makes Pods: by the Pods that it has, or by those that it cannot create."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from app.admission.pods import SURPRISING
from app.doctor import objects
from app.doctor.catalog import FINDINGS, plain
from app.doctor.objects import Object
from app.kube.resources import DAEMON_SETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource
from app.text import moment, several
from app.why.installation import uncalled
from app.why.model import Asking, State, Verdict, broken, events_of, fine, judged, listed, or_else, waits
from app.why.pods import worst_of
from app.why.standing import describe
from app.wire import JSON

CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
_REFUSED = frozenset({"FailedCreate", "ReplicaSetCreateError"})
"""Reasons of Events of controllers whose Pods are refused."""
_WEBHOOK = "berth-webhook"
"""Who tells the owner of a Pod in an Event why Berth has denied the Pod."""
_REMEMBERED = 1800.0
"""Seconds in which a controller whose Pods are refused tries again: controllers wait for 17 minutes at most."""
_DENIED = "BERTH1206"
_BAD = frozenset({"Failed", "ReplicaFailure", "FailureTarget"})


def judge_owner(it: Object, now: datetime) -> Asking[Verdict | None]:
    """By its Pods: the first that is not as it should be says why."""
    template = _template(it)
    if not it.json["metadata"].get("uid"):
        planned = yield from judged(PODS, it.name, it.namespace, obj=template)
        return fine("would be created") if planned is None else _as_owner(it, planned.text, planned)
    if (settled := _settled(it)) is not None:
        return settled
    wanted, ready = _counts(it)
    failed = _failed(it)
    pods = yield from _pods_of(it)
    text = f"{ready} of {several(wanted, 'Pod')} run"
    if failed and it.resource == JOBS:
        worst, name = yield from worst_of(_looked_at(pods))
        failure = broken("Failed", because=(failed,), more=describe(it))
        return failure.after(worst, of=f"Pod {name}") if name else failure
    # Pods that are over were replaced, or are not counted.
    living = [pod for pod in pods if objects.status(pod.json).get("phase") not in ("Succeeded", "Failed")]
    if not living and ready < wanted:
        return (yield from _without_pods(it, text, template, failed))
    worst, name = yield from worst_of(_looked_at(living))
    if name:
        return _as_owner(it, f"{text}; {name}: {worst.text}", worst)
    if failed:
        return (yield from _without_pods(it, f"{text}, and new ones are refused", template, failed))
    if ready < wanted:
        verdict = waits(text, because=("its newest Pods are not ready yet",), more=describe(it))
    else:
        verdict = fine(text)
    refused = (yield from _refusal(it, since=now - timedelta(seconds=_REMEMBERED))) if _is_short(it, wanted) else ""
    return _denied(it, f"{text}, and new ones are refused", refused) if refused else verdict


def _looked_at(pods: list[Object]) -> list[Object]:
    """The Pods that are judged, those that are not well first."""
    return sorted(pods, key=lambda pod: (objects.waits_for(pod.json) is None, pod.name))[:_LOOKED_AT]


def _settled(it: Object) -> Verdict | None:
    """The verdict on one that wants no Pods now; None on any other."""
    spec, complete = objects.spec(it.json), objects.condition(it.json, "Complete")
    if it.resource == JOBS and complete.get("status") == "True":
        return fine("completed", since=moment(complete.get("lastTransitionTime")))
    if it.resource == JOBS and spec.get("suspend"):
        return waits("is suspended", more=describe(it))
    if it.resource != JOBS and _counts(it)[0] == 0:
        return fine("wants no Pod")
    return None


def _failed(it: Object) -> str:
    """What the condition says by which it has failed, or its Pods are refused; "" where there is none."""
    conditions = objects.status(it.json).get("conditions") or ()
    failed: JSON = next((item for item in conditions if item.get("type") in _BAD and item.get("status") == "True"), {})
    return plain(failed.get("message") or failed.get("reason") or "")


_LOOKED_AT = 20
"""Pods of one owner that are judged: those of one template differ little."""


def _as_owner(it: Object, text: str, pod: Verdict) -> Verdict:
    """The verdict on a Pod as one on what makes it, which is what a user can change."""
    return replace(pod, text=text, more=describe(it))


def _without_pods(it: Object, text: str, template: JSON, refused: str) -> Asking[Verdict]:
    """Its Pods are refused, or not created yet. What the template's Pod would be says more than an Event."""
    planned = yield from judged(PODS, it.name, it.namespace, obj=template)
    if planned is not None and planned.state is State.broken:
        return _as_owner(it, text, planned)
    if refused := (yield from _refusal(it)) or refused:
        return _denied(it, text, refused)
    if planned is not None and planned.state > State.waits:
        return _as_owner(it, text, planned)
    if (refusing := (yield from uncalled())) is not None:
        return _as_owner(it, text, refusing)
    return waits(text, because=("its Pods are not created yet",), more=describe(it))


def _denied(it: Object, text: str, refused: str) -> Verdict:
    so = FINDINGS[_DENIED].consequence
    return broken(text, because=(f"its Pods are refused: {refused}",), so=so, codes=(_DENIED,), more=describe(it))


def _refusal(it: Object, *, since: datetime | None = None) -> Asking[str]:
    """What the newest Event says by which its Pods are refused; "" for none, and for one from before `since`."""
    makers = [it]
    if it.resource == DEPLOYMENTS:
        makers = yield from or_else(listed(REPLICA_SETS, it.namespace, owner=_uid(it)), [])
    refusals = list[JSON]()
    for maker in makers:
        refusals += filter(_is_refusal, (yield from or_else(events_of(maker), [])))
    newest = max(refusals, key=objects.seen_at, default={})
    if since is not None and ((when := moment(objects.seen_at(newest))) is None or when < since):
        return ""
    return plain(newest.get("message") or newest.get("reason") or "")


def _is_refusal(event: JSON) -> bool:
    """Of a controller that could not create a Pod, or of Berth's webhook, which has denied it."""
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    denied = component == _WEBHOOK and event.get("type") == "Warning" and event.get("reason") not in SURPRISING
    return denied or event.get("reason") in _REFUSED


def _is_short(it: Object, wanted: int) -> bool:
    """Whether it has created fewer Pods than it wants, by its status."""
    return int(objects.status(it.json).get(_CREATED[it.resource]) or 0) < wanted


_CREATED = {
    DEPLOYMENTS: "updatedReplicas",
    REPLICA_SETS: "replicas",
    STATEFUL_SETS: "replicas",
    DAEMON_SETS: "currentNumberScheduled",
    JOBS: "active",
}
"""The field of the status that counts the Pods which there are, of a Deployment those of its template."""


def _pods_of(it: Object) -> Asking[list[Object]]:
    if it.resource == DEPLOYMENTS:
        pods = list[Object]()
        for replica_set in (yield from listed(REPLICA_SETS, it.namespace, owner=_uid(it))):
            if objects.spec(replica_set.json).get("replicas"):
                pods += yield from listed(PODS, it.namespace, owner=_uid(replica_set))
        return pods
    return (yield from listed(PODS, it.namespace, owner=_uid(it)))


def _uid(it: Object) -> str:
    return str(it.json["metadata"].get("uid") or "")


def _counts(it: Object) -> tuple[int, int]:
    """How many Pods are wanted, and how many are as they should be."""
    spec, status = objects.spec(it.json), objects.status(it.json)
    if it.resource == DAEMON_SETS:
        return int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
    if it.resource == JOBS:
        done = int(status.get("succeeded") or 0)
        parallel, completions = spec.get("parallelism"), spec.get("completions")
        wanted = 1 if parallel is None else int(parallel)
        left = wanted if completions is None else min(wanted, int(completions) - done)
        return max(left, 0), int(status.get("ready") or 0)
    replicas = spec.get("replicas")
    return 1 if replicas is None else int(replicas), int(status.get("readyReplicas") or 0)


def _template(it: Object) -> JSON:
    """The Pod that it would create, as it is sent to an API server."""
    template = objects.spec(it.json).get("template") or {}
    owner = {"apiVersion": it.resource.api_version, "kind": it.resource.kind, "name": it.name, "uid": _uid(it)}
    owners = [{**owner, "controller": True}] if _uid(it) else []
    metadata = {"generateName": f"{it.name}-", **(template.get("metadata") or {}), "namespace": it.namespace}
    metadata["ownerReferences"] = owners
    return PODS.body({**metadata, "name": it.name}, spec=objects.spec(template))


def judge_cron_job(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """By its newest Job."""
    if objects.spec(it.json).get("suspend"):
        return waits("is suspended", more=describe(it))
    if not _uid(it):
        job = objects.spec(it.json).get("jobTemplate") or {}
        metadata = {**(job.get("metadata") or {}), "name": it.name, "namespace": it.namespace}
        return (yield from judged(JOBS, it.name, it.namespace, obj=JOBS.body(metadata, spec=objects.spec(job))))
    jobs = yield from or_else(listed(JOBS, it.namespace, owner=_uid(it)), [])
    if not jobs:
        return waits("has not run yet", next=f"runs by its schedule: {objects.spec(it.json).get('schedule')}")
    newest = max(jobs, key=lambda job: str(job.json["metadata"].get("creationTimestamp")))
    verdict = yield from judged(JOBS, newest.name, newest.namespace)
    return None if verdict is None else _as_owner(it, f"its newest Job {newest.name}: {verdict.text}", verdict)


JUDGES = {
    **dict.fromkeys((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS), judge_owner),
    CRON_JOBS: judge_cron_job,
}
