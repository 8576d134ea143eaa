"""What has to become of the RmdWorkloads of one Pod: its containers and their cores in, writes and Events out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.rmd.agent.kubelet import Cores
from app.rmd.agent.stored import Made, NodePod, node_labels
from app.rmd.cores import MOST_CORES
from app.rmd.pods import Asked, workload_of
from app.rmd.requests import read_spec
from app.wire import JSON

NO_RESERVATION, NO_CORES, SHARED, WRONG = "NoCacheReservation", "NoExclusiveCores", "SharedCores", "ImpossibleCores"

REASONS = (NO_RESERVATION, NO_CORES, SHARED, WRONG)


class Note(NamedTuple):
    """A Warning Event on the Pod."""

    reason: str
    message: str


@dataclass(slots=True)
class PodPlan:
    """`wait` says why the Pod has to be looked at again, "" where it has not."""

    create: list[JSON] = field(default_factory=list)
    update: list[tuple[Made, JSON]] = field(default_factory=list)
    delete: list[Made] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    wait: str = ""


def plan_pod(pod: NodePod | None, made: Sequence[Made], cores: Cores | None, shared: frozenset[int]) -> PodPlan:
    """`made` are the RmdWorkloads of Pods of this name, `cores` those of all Pods of the node; None: kubelet is silent.

    `shared` are the cores that several containers have. Without an answer of kubelet what is there stays.
    """
    plan = PodPlan()
    kept: set[str] = set()
    if pod is not None and not pod.ended:
        plan.notes += [Note(NO_RESERVATION, line) for line in pod.asks.warnings]
        listed = (cores or {}).get(pod.key) if pod.acknowledged else None
        for asked in pod.asks.containers:
            _plan_container(plan, kept, pod, asked, made, listed, shared)
    plan.delete += [one for one in made if one.key[1] not in kept and not one.deleting]
    return plan


def shared_cores(cores: Cores, pods: Iterable[NodePod]) -> frozenset[int]:
    """Cores of more than one container of these Pods, which have not ended: kubelet 1.20 lists the shared ones."""
    living = (cores.get(pod.key, {}) for pod in pods if not pod.ended)
    counted = Counter(core for containers in living for given in containers.values() for core in given or ())
    return frozenset(core for core, times in counted.items() if times > 1)


def _plan_container(
    plan: PodPlan,
    kept: set[str],
    pod: NodePod,
    asked: Asked,
    made: Sequence[Made],
    listed: Mapping[str, frozenset[int] | None] | None,
    shared: frozenset[int],
) -> None:
    container = asked.container
    plan.notes += [Note(NO_RESERVATION, line) for line in asked.warnings]
    if not asked.qualifies:
        plan.notes.append(Note(NO_RESERVATION, f"container {container}: {'; '.join(asked.problems)}"))
        return
    if container in pod.over:
        return
    given = (listed or {}).get(container, frozenset())
    wanted = workload_of(pod.identity, asked, given or frozenset())
    wanted["metadata"]["labels"] = node_labels(pod.identity["spec"]["nodeName"])
    there = next((one for one in made if one.key[1] == wanted["metadata"]["name"]), None)
    if there is not None and there.pod[1] == pod.uid:
        kept.add(there.key[1])
    if not given or given & shared:
        _without_cores(plan, pod, container, given, there, listed=listed is not None)
    elif there is None and not pod.deleting:
        plan.create.append(wanted)
    elif there is not None and there.pod[1] != pod.uid:
        plan.wait = f"RmdWorkload {there.key[1]} of an earlier Pod has to go first"
    elif there is not None and not _alike(there.spec, wanted["spec"]) and not there.deleting:
        plan.update.append((there, wanted))


def _alike(there: JSON, wanted: JSON) -> bool:
    """Whether the specs differ in nothing but how they write the same cores: Berth wrote ranges of them before."""
    if {**there, "coreIds": ()} != {**wanted, "coreIds": ()}:
        return False
    return read_spec(there).request.cores == read_spec(wanted).request.cores


def _without_cores(
    plan: PodPlan, pod: NodePod, container: str, given: frozenset[int] | None, there: Made | None, *, listed: bool
) -> None:
    if given is None:
        text = f"container {container}: kubelet lists cores that no machine has: want numbers below {MOST_CORES}"
        plan.notes.append(Note(WRONG, text))
    elif given:
        plan.notes.append(Note(SHARED, f"container {container}: kubelet lists cores that other containers have too"))
    elif listed and pod.phase == "Running" and there is None:
        text = f"container {container}: kubelet gave it no cores of its own: its CPU manager policy has to be static"
        plan.notes.append(Note(NO_CORES, text))
    if pod.acknowledged:
        plan.wait = plan.wait or f"container {container} has no cores of its own yet"
