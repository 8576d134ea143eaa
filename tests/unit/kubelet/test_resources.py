"""What the stand-in for kubelet knows of an extended resource, while its plugin comes and goes."""

from __future__ import annotations

import pytest

from app.devtools.kubelet.resources import Resource, is_extended, numa_nodes
from app.rmd.proto import plugin_pb


def test_counts_while_a_plugin_comes_and_goes() -> None:
    resource = Resource()
    assert resource.counts == (0, 0)
    healths = {"a": "Healthy", "b": "Healthy", "c": "Unhealthy", "d": ""}
    resource.replace({name: plugin_pb.Device(ID=name, health=health) for name, health in healths.items()})
    assert (resource.counts, resource.healthy) == ((4, 2), {"a", "b"})
    resource.disconnect()
    assert (resource.counts, resource.known) == ((4, 0), True)
    resource.restart()
    assert (resource.counts, resource.known) == ((0, 0), True)
    resource.forget()
    assert (resource.counts, resource.known) == ((0, 0), False)
    resource.replace({"a": plugin_pb.Device(ID="a", health="Healthy")})
    assert (resource.counts, resource.known) == ((1, 1), True)


def test_numa_nodes_of_a_device() -> None:
    nodes = [plugin_pb.NUMANode(ID=0), plugin_pb.NUMANode(ID=3)]
    assert numa_nodes(plugin_pb.Device(topology=plugin_pb.TopologyInfo(nodes=nodes))) == {0, 3}
    assert numa_nodes(plugin_pb.Device()) == frozenset()


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("intel.com/l3_cache_ways", True),
        (f"intel.com/{'x' * 63}", True),
        (f"intel.com/{'x' * 64}", False),
        ("cpu", False),
        ("kubernetes.io/x", False),
        ("a.kubernetes.io/x", False),
        ("requests.intel.com/x", False),
        ("Intel.com/x", False),
        ("intel.com/x/y", False),
        ("intel.com/", False),
    ],
)
def test_names_that_a_plugin_may_register(name: str, *, extended: bool) -> None:
    assert is_extended(name) is extended
