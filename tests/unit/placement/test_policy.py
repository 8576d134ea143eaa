"""What the cloud admin may allow tenants: names by kind, nothing that takes a wall away."""

from __future__ import annotations

import pytest

from app.kinds.shapes import fields_of
from app.placement.model import ALLOWANCES, OWN_VOLUMES, TenantPolicy, parse_policy


def test_nothing_is_allowed_unless_it_is_named() -> None:
    assert not TenantPolicy().allows("priorityClass", "gold")
    policy = parse_policy(["priorityClass=gold", "volumeType=nfs", "csiDriver=secrets-store.csi.k8s.io"])
    assert policy.allows("priorityClass", "gold")
    assert policy.allows("volumeType", "nfs")
    assert not policy.allows("runtimeClass", "gold")
    assert not policy.allows("priorityClass", "gol")
    assert not policy.allows("priorityClass", None)


def test_every_type_of_volume_that_is_refused_by_default_can_be_allowed() -> None:
    """But for those that are never allowed as a whole."""
    allowed = fields_of("Volume").keys() - OWN_VOLUMES - {"name", "hostPath", "csi"}
    policy = parse_policy(f"volumeType={name}" for name in allowed)
    assert all(policy.allows("volumeType", name) for name in allowed)
    assert {"nfs", "iscsi", "ephemeral"} <= allowed


def test_advice_lists_the_names_of_the_kind() -> None:
    policy = parse_policy(["priorityClass=silver", "priorityClass=gold", "runtimeClass=kata"])
    assert policy.advice("priorityClass").startswith("use gold or silver, or leave it out")
    assert policy.advice("scheduler").startswith("leave it out")
    assert policy.advice("runtimeClass", whole="the part").startswith("use kata, or leave the part out")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("gold", f"'gold': want KIND=NAME, with KIND one of {', '.join(ALLOWANCES)}"),
        ("priorityclass=gold", "'priorityclass=gold': want KIND=NAME"),
        ("priorityClass=", "'priorityClass=': "),
        ("priorityClass=Gold", "'priorityClass=Gold': "),
        (
            "priorityClass=system-node-critical",
            "classes that begin with system- are for the Pods of the cluster itself",
        ),
        ("volumeType=hostPath", "tenants cannot be allowed files of the host"),
        ("volumeType=csi", "name drivers with csiDriver"),
        ("volumeType=host-path", "'host-path' is not a type of volume"),
        (
            "volumeType=nfss",
            "'nfss' is not a type of volume that tenants can be allowed, want one of awsElasticBlockStore, ",
        ),
        ("volumeType=NFS", " iscsi, nfs, photonPersistentDisk, "),
        ("volumeType=projected", "every tenant's Pods may have it; leave it out"),
        ("volumeType=persistentVolumeClaim", "every tenant's Pods may have it; leave it out"),
        ("volumeType=name", "'name' is not a type of volume"),
        ("scheduler=default-scheduler", "every tenant's Pods may have it; leave it out"),
        ("csiDriver=a b", "'csiDriver=a b': "),
    ],
)
def test_mistakes_are_named(entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^'") as caught:
        parse_policy([entry])
    assert message in str(caught.value)
