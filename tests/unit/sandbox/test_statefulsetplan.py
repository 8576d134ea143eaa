"""What the StatefulSet controller of the sandbox does next."""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.standins.statefulsetplan import REVISION, Step, next_step, put_identity, revision

JSON = dict[str, Any]


def stateful(replicas: int = 3, *, image: str = "a", status: JSON | None = None, **spec: Any) -> JSON:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    body = {"replicas": replicas, "template": template, **spec}
    return {"metadata": {"name": "s", "generation": 2}, "spec": body, "status": status or {}}


def pod(ordinal: int, *, ready: bool = True, deleted: bool = False, state: str = "Running", image: str = "a") -> JSON:
    metadata: JSON = {"name": f"s-{ordinal}", "labels": {REVISION: revision(stateful(image=image))}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": metadata, "status": {"phase": state, "conditions": conditions}}


def deleted(step: Step) -> list[str]:
    return [one["metadata"]["name"] for one in step.delete]


def test_pods_are_made_one_after_the_other() -> None:
    assert next_step(stateful(), []).create == (0,)
    assert next_step(stateful(), [pod(0, ready=False)]).create == ()
    assert next_step(stateful(), [pod(0)]).create == (1,)
    assert next_step(stateful(), [pod(0, deleted=True)]).create == ()
    assert next_step(stateful(), [pod(0), pod(1), pod(2)]).create == ()
    assert next_step(stateful(2, ordinals={"start": 5}), [pod(5)]).create == (6,)


def test_in_parallel_all_are_made_and_ended_at_once() -> None:
    parallel = stateful(podManagementPolicy="Parallel")
    assert next_step(parallel, [pod(1, ready=False)]).create == (0, 2)
    less = next_step(stateful(1, podManagementPolicy="Parallel"), [pod(0, ready=False), pod(1), pod(2)])
    assert deleted(less) == ["s-2", "s-1"]


def test_what_is_too_much_goes_from_the_end() -> None:
    pods = [pod(0), pod(1), pod(2)]
    assert deleted(next_step(stateful(1), pods)) == ["s-2"]
    assert deleted(next_step(stateful(1), [pod(0), pod(1), pod(2, deleted=True)])) == []
    assert deleted(next_step(stateful(1), [pod(0, ready=False), pod(1)])) == []
    assert deleted(next_step(stateful(0), [pod(0)])) == ["s-0"]


def test_a_pod_that_has_ended_is_made_anew() -> None:
    assert deleted(next_step(stateful(), [pod(0), pod(1, ready=False, state="Failed")])) == ["s-1"]


def test_another_template_rolls_from_the_last() -> None:
    old = [pod(0), pod(1), pod(2)]
    assert deleted(next_step(stateful(image="b"), old)) == ["s-2"]
    assert deleted(next_step(stateful(image="b"), [pod(0), pod(1), pod(2, image="b", ready=False)])) == []
    assert deleted(next_step(stateful(image="b"), [pod(0), pod(1), pod(2, image="b")])) == ["s-1"]
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    assert not deleted(next_step(stateful(image="b", updateStrategy=partition), [pod(0), pod(1), pod(2, image="b")]))
    assert not deleted(next_step(stateful(image="b", updateStrategy={"type": "OnDelete"}), old))


def test_the_status_counts() -> None:
    """The current revision follows when every Pod has the new one."""
    a, b = revision(stateful(image="a")), revision(stateful(image="b"))
    rolling = next_step(
        stateful(image="b", status={"currentRevision": a}), [pod(0), pod(1, ready=False), pod(2, image="b")]
    ).status
    assert rolling == {
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 1,
        "currentRevision": a,
        "updateRevision": b,
        "collisionCount": 0,
    }
    done = next_step(
        stateful(image="b", status={"currentRevision": a}), [pod(one, image="b") for one in range(3)]
    ).status
    assert (done["currentRevision"], done["currentReplicas"], done["updatedReplicas"]) == (b, 3, 3)


def test_a_pod_has_its_name_and_mounts_its_claim() -> None:
    owner = stateful(serviceName="svc", volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    made: JSON = {"metadata": {"generateName": "s-", "labels": {"app": "x"}}, "spec": {}}
    put_identity(made, owner, 1)
    assert made["metadata"] == {
        "name": "s-1",
        "labels": {
            "app": "x",
            "statefulset.kubernetes.io/pod-name": "s-1",
            "apps.kubernetes.io/pod-index": "1",
            REVISION: revision(owner),
        },
    }
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}
    assert made["spec"] == {"hostname": "s-1", "subdomain": "svc", "volumes": [claim]}
