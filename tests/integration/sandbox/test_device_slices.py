"""What ResourceSlices may say of their pool, their nodes and their devices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import GROUP, MERGE

JSON = dict[str, Any]
SLICES = f"{GROUP}/resourceslices"


def device(name: str = "d0", **fields: Any) -> JSON:
    return {"name": name, **fields}


def devices_slice(*devices: JSON, **fields: Any) -> JSON:
    """The spec of a slice with these devices; fields that are None are left out."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    base = {"driver": "d.example.com", "pool": pool, "nodeName": "n1", "devices": list(devices) or [device()]}
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


def with_attributes(attributes: JSON) -> JSON:
    return device(attributes=attributes)


VALUES = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
ACCEPTED: dict[str, JSON] = {
    "ok": devices_slice(),
    "nodevices": devices_slice(devices=None),
    "upper": devices_slice(driver="D.x"),
    "poolslash": devices_slice(pool={"name": "a/b", "generation": 1, "resourceSliceCount": 1}),
    "all": devices_slice(nodeName=None, allNodes=True),
    "sel": devices_slice(nodeName=None, nodeSelector={"nodeSelectorTerms": [TERM]}),
    "perdev": devices_slice(device(nodeName="n1"), nodeName=None, perDeviceNodeSelection=True),
    "attr": devices_slice(
        with_attributes({"x.io/a": {"string": "s"}, "b": {"int": 1}, "c": {"bool": False}, "d": {"version": "1.2.3"}})
    ),
    "cap": devices_slice(device(capacity={"x.io/mem": {"value": "1Gi"}})),
    "capacity-noval": devices_slice(device(capacity={"m": {}})),
    "capacity-multi": devices_slice(
        device(
            allowMultipleAllocations=True,
            capacity={"m": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}},
        )
    ),
    "capacity-range": devices_slice(
        device(
            allowMultipleAllocations=True,
            capacity={
                "m": {
                    "value": "10",
                    "requestPolicy": {"default": "1", "validRange": {"min": "1", "max": "5", "step": "2"}},
                }
            },
        )
    ),
    "taint": devices_slice(device(taints=[{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}])),
    "shared": devices_slice(devices=None, sharedCounters=[{"name": "s", "counters": {"a": {"value": "1"}}}]),
    "consume": devices_slice(device(consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": "1"}}}])),
    "bind": devices_slice(device(bindsToNode=True, bindingConditions=["a"], bindingFailureConditions=["b"])),
}
REFUSED: dict[str, tuple[JSON, str]] = {
    "nodriver": (devices_slice(driver=None), "spec.driver: Required value"),
    "driver": (devices_slice(driver="D_"), 'spec.driver: Invalid value: "D_": a lowercase RFC 1123 subdomain'),
    "nopool": (devices_slice(pool=None), "spec.pool.name: Required value"),
    "poolname": (
        devices_slice(pool={"name": "A_/b", "generation": 1, "resourceSliceCount": 1}),
        'spec.pool.name: Invalid value: "A_": a lowercase RFC 1123 subdomain',
    ),
    "poolcount": (
        devices_slice(pool={"name": "a", "generation": 1, "resourceSliceCount": 0}),
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
    ),
    "poolgen": (
        devices_slice(pool={"name": "a", "generation": -1, "resourceSliceCount": 1}),
        "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
    ),
    "nonode": (
        devices_slice(nodeName=None),
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
    ),
    "allfalse": (
        devices_slice(nodeName=None, allNodes=False),
        "spec.allNodes: Invalid value: false: must be either unset or set to true",
    ),
    "two": (
        devices_slice(allNodes=True),
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set',
    ),
    "nodeempty": (
        devices_slice(nodeName=""),
        'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
    ),
    "nodebad": (devices_slice(nodeName="N_"), 'spec.nodeName: Invalid value: "N_": a lowercase RFC 1123 subdomain'),
    "sel2": (
        devices_slice(nodeName=None, nodeSelector={"nodeSelectorTerms": [TERM, TERM]}),
        'spec.nodeSelector.nodeSelectorTerms: Invalid value: [{"MatchExpressions":[{"Key":"a","Operator":"In","Values":["b"]}],"MatchFields":null},{"MatchExpressions":[{"Key":"a","Operator":"In","Values":["b"]}],"MatchFields":null}]: must have exactly one node selector term',
    ),
    "sel0": (
        devices_slice(nodeName=None, nodeSelector={"nodeSelectorTerms": []}),
        "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
    ),
    "perdevfalse": (
        devices_slice(nodeName=None, perDeviceNodeSelection=False),
        "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
    ),
    "perdevnone": (
        devices_slice(device(), nodeName=None, perDeviceNodeSelection=True),
        "spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
    ),
    "perdevtwo": (
        devices_slice(device(nodeName="n1", allNodes=True), nodeName=None, perDeviceNodeSelection=True),
        'spec.devices[0]: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec',
    ),
    "perdevempty": (
        devices_slice(device(nodeName=""), nodeName=None, perDeviceNodeSelection=True),
        'spec.devices[0].nodeName: Invalid value: "": must not be empty',
    ),
    "perdevallf": (
        devices_slice(device(allNodes=False), nodeName=None, perDeviceNodeSelection=True),
        "spec.devices[0].allNodes: Invalid value: false: must be either unset or set to true",
    ),
    "perdevnot": (
        devices_slice(device(nodeName="n1")),
        "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
    ),
    "noname": (
        devices_slice({"attributes": {}}),
        'spec.devices[0].name: Invalid value: "": a lowercase RFC 1123 label',
    ),
    "badname": (devices_slice(device("D_")), 'spec.devices[0].name: Invalid value: "D_": a lowercase RFC 1123 label'),
    "dup": (devices_slice(device(), device()), 'spec.devices[1]: Duplicate value: "d0"'),
    "many": (
        devices_slice(*[device(f"d{i}") for i in range(129)]),
        "spec.devices: Too many: 129: must have at most 128 items",
    ),
    "manytaint": (
        devices_slice(*[device(f"d{i}", taints=[{"key": "a", "effect": "NoSchedule"}]) for i in range(65)]),
        "spec.devices: Too many: 65: must have at most 64 items",
    ),
    "attribute-none": (
        devices_slice(with_attributes({"a": {}})),
        f'spec.devices[0].attributes[a]: Invalid value: "": must specify one of: {VALUES}',
    ),
    "attribute-two": (
        devices_slice(with_attributes({"a": {"int": 1, "string": "s"}})),
        f'spec.devices[0].attributes[a]: Invalid value: "{{int, string}}": must specify exactly one of: {VALUES}',
    ),
    "attribute-order": (
        devices_slice(with_attributes({"a": {"version": "1.2.3", "bool": False, "ints": [1]}})),
        f'spec.devices[0].attributes[a]: Invalid value: "{{bool, version}}": must specify exactly one of: {VALUES}',
    ),
    "attribute-nodomain": (
        devices_slice(with_attributes({"/a": {"int": 1}})),
        'spec.devices[0].attributes: Invalid value: "": the domain must not be empty',
    ),
    "attribute-long": (
        devices_slice(with_attributes({"a": {"string": "s" * 65}})),
        "spec.devices[0].attributes[a].string: Too long: may not be more than 64 bytes",
    ),
    "attribute-ver": (
        devices_slice(with_attributes({"a": {"version": "1.2"}})),
        'spec.devices[0].attributes[a].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0',
    ),
    "attribute-key": (
        devices_slice(with_attributes({"a-b": {"int": 1}})),
        'spec.devices[0].attributes: Invalid value: "a-b": a valid C identifier',
    ),
    "attribute-dom": (
        devices_slice(with_attributes({"x_/b": {"int": 1}})),
        'spec.devices[0].attributes: Invalid value: "x_": a lowercase RFC 1123 subdomain',
    ),
    "attribute-longkey": (
        devices_slice(with_attributes({"a" * 33: {"int": 1}})),
        "spec.devices[0].attributes: Too long: may not be more than 32 bytes",
    ),
    "attribute-list": (
        devices_slice(with_attributes({"a": {"strings": ["x"]}})),
        f'spec.devices[0].attributes[a]: Invalid value: "": must specify one of: {VALUES}',
    ),
    "attribute-many": (
        devices_slice(with_attributes({f"a{i}": {"int": 1} for i in range(33)})),
        "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
    ),
    "capacity-key": (
        devices_slice(device(capacity={"a-b": {"value": "1Gi"}})),
        'spec.devices[0].capacity: Invalid value: "a-b": a valid C identifier',
    ),
    "capacity-policy": (
        devices_slice(device(capacity={"m": {"value": "1Gi", "requestPolicy": {"default": "1"}}})),
        "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
    ),
    "capacity-nodef": (
        devices_slice(
            device(
                allowMultipleAllocations=True,
                capacity={"m": {"value": "10", "requestPolicy": {"validValues": ["1", "2"]}}},
            )
        ),
        "spec.devices[0].capacity[m].requestPolicy.default: Required value: required when validValues is defined",
    ),
    "capacity-baddef": (
        devices_slice(
            device(
                allowMultipleAllocations=True,
                capacity={"m": {"value": "10", "requestPolicy": {"default": "3", "validValues": ["1", "2"]}}},
            )
        ),
        'spec.devices[0].capacity[m].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
    ),
    "taint-key": (
        devices_slice(device(taints=[{"effect": "NoSchedule"}])),
        'spec.devices[0].taints[0].key: Invalid value: "": name part must be non-empty',
    ),
    "taint-eff": (devices_slice(device(taints=[{"key": "a"}])), "spec.devices[0].taints[0].effect: Required value"),
    "taint-badeff": (
        devices_slice(device(taints=[{"key": "a", "effect": "x"}])),
        'spec.devices[0].taints[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"',
    ),
    "taint-many": (
        devices_slice(device(taints=[{"key": f"a{i}", "effect": "NoSchedule"} for i in range(17)])),
        "spec.devices[0].taints: Too many: 17: must have at most 16 items",
    ),
    "taint-val": (
        devices_slice(device(taints=[{"key": "a", "value": "-", "effect": "NoSchedule"}])),
        'spec.devices[0].taints[0].value: Invalid value: "-": a valid label must be',
    ),
    "sharedboth": (
        devices_slice(sharedCounters=[{"name": "s", "counters": {"a": {"value": "1"}}}]),
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
    ),
    "sharednone": (
        devices_slice(devices=None, sharedCounters=[{"name": "s"}]),
        "spec.sharedCounters[0].counters: Required value",
    ),
    "shareddup": (
        devices_slice(devices=None, sharedCounters=[{"name": "s", "counters": {"a": {"value": "1"}}}] * 2),
        'spec.sharedCounters[1]: Duplicate value: {"name":"s","counters":{"a":{"value":"1"}}}',
    ),
    "shareddup-order": (
        devices_slice(
            devices=None, sharedCounters=[{"counters": {"b": {"value": "1"}, "a": {"value": "2"}}, "name": "S_"}] * 2
        ),
        'spec.sharedCounters[1]: Duplicate value: {"name":"S_","counters":{"a":{"value":"2"},"b":{"value":"1"}}}',
    ),
    "sharednoname": (
        devices_slice(devices=None, sharedCounters=[{"counters": {"a": {"value": "1"}}}]),
        "spec.sharedCounters[0].name: Required value",
    ),
    "sharedmany": (
        devices_slice(
            devices=None, sharedCounters=[{"name": f"s{i}", "counters": {"a": {"value": "1"}}} for i in range(9)]
        ),
        "spec.sharedCounters: Too many: 9: must have at most 8 items",
    ),
    "sharedkey": (
        devices_slice(devices=None, sharedCounters=[{"name": "s", "counters": {"A_": {"value": "1"}}}]),
        'spec.sharedCounters[0].counters: Invalid value: "A_": a lowercase RFC 1123 label',
    ),
    "consumenone": (
        devices_slice(device(consumesCounters=[{"counterSet": "s"}])),
        "spec.devices[0].consumesCounters[0].counters: Required value",
    ),
    "consumeset": (
        devices_slice(device(consumesCounters=[{"counters": {"a": {"value": "1"}}}])),
        "spec.devices[0].consumesCounters[0].counterSet: Required value",
    ),
    "consumemany": (
        devices_slice(
            device(consumesCounters=[{"counterSet": f"s{i}", "counters": {"a": {"value": "1"}}} for i in range(3)])
        ),
        "spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items",
    ),
    "consumedup": (
        devices_slice(device(consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": "1"}}}] * 2)),
        'spec.devices[0].consumesCounters[1]: Duplicate value: {"counterSet":"s","counters":{"a":{"value":"1"}}}',
    ),
    "binding-half": (
        devices_slice(device(bindingConditions=["a"])),
        "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
    ),
    "binding-half2": (
        devices_slice(device(bindingFailureConditions=["a"])),
        "spec.devices[0].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions",
    ),
    "binding-both": (
        devices_slice(device(bindingConditions=["a"], bindingFailureConditions=["a"])),
        'spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions',
    ),
    "binding-many": (
        devices_slice(device(bindingConditions=list("abcde"), bindingFailureConditions=["x"])),
        "spec.devices[0].bindingConditions: Too many: 5: must have at most 4 items",
    ),
    "binding-dup": (
        devices_slice(device(bindingConditions=["a", "a"], bindingFailureConditions=["x"])),
        'spec.devices[0].bindingConditions[1]: Duplicate value: "a"',
    ),
    "binding-bad": (
        devices_slice(device(bindingConditions=["a b"], bindingFailureConditions=["x"])),
        'spec.devices[0].bindingConditions[0]: Invalid value: "a b": name part must consist',
    ),
}


def post(served: Any, name: str, body: JSON) -> Any:
    return served.request("POST", f"{SLICES}?dryRun=All", {"metadata": {"name": name}, "spec": body})


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_slice_is_accepted(served: Any, case: str) -> None:
    answer = post(served, case, ACCEPTED[case])
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", REFUSED)
def test_a_slice_is_refused(served: Any, case: str) -> None:
    body, message = REFUSED[case]
    answer = post(served, case, body)
    assert answer.status == 422, answer.body
    cause = answer.body["details"]["causes"][0]
    assert f"{cause['field']}: {cause['message']}".startswith(message)


def test_a_driver_in_capital_letters_is_warned_of(served: Any) -> None:
    answer = post(served, "warned", devices_slice(driver="D.x"))
    assert "driver names should be lowercase" in answer.headers["Warning"]


def test_a_taint_without_a_time_gets_one(served: Any) -> None:
    answer = post(served, "tainted", devices_slice(device(taints=[{"key": "a", "effect": "NoSchedule"}])))
    assert answer.body["spec"]["devices"][0]["taints"][0]["timeAdded"].endswith("Z")


@pytest.fixture
def kept(served: Any, namespace: str) -> Any:
    """The path of a slice that is stored for the test."""
    name = f"kept-{namespace}"
    answer = served.request("POST", SLICES, {"metadata": {"name": name}, "spec": devices_slice(nodeName=namespace)})
    assert answer.status == 201, answer.body
    yield f"{SLICES}/{name}"
    served.request("DELETE", f"{SLICES}/{name}")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"driver": "x"}, "spec.driver"),
        ({"pool": {"name": "x"}}, "spec.pool.name"),
        ({"nodeName": "other"}, "spec.nodeName"),
    ],
)
def test_what_identifies_a_slice_does_not_change(served: Any, kept: str, change: JSON, field: str) -> None:
    answer = served.request("PATCH", kept, {"spec": change}, content_type=MERGE)
    assert answer.status == 422
    assert f"{field}: Invalid value: " in answer.body["message"]
    assert "field is immutable" in answer.body["message"]


def test_a_new_generation_of_a_pool_and_other_devices_are_written(served: Any, kept: str) -> None:
    change = {"pool": {"generation": 2}, "devices": [device("d1", attributes={"a": {"int": 1}})]}
    answer = served.request("PATCH", kept, {"spec": change}, content_type=MERGE)
    assert answer.status == 200
    assert answer.body["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName={0}", 1),
        ("spec.nodeName={0},spec.driver=d.example.com", 1),
        ("spec.nodeName={0},spec.driver=x", 0),
    ],
)
def test_slices_are_selected_by_node_and_driver(
    served: Any, namespace: str, kept: str, selector: str, found: int
) -> None:
    answer = served.request("GET", f"{SLICES}?fieldSelector={selector.format(namespace)}")
    assert len(answer.body["items"]) == found


def test_a_deleted_slice_is_what_its_deletion_answers(served: Any, namespace: str) -> None:
    name = f"gone-{namespace}"
    served.request("POST", SLICES, {"metadata": {"name": name}, "spec": devices_slice()})
    assert served.request("DELETE", f"{SLICES}/{name}").body["kind"] == "ResourceSlice"
