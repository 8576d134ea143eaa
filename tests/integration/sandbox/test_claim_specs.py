"""What ResourceClaims and ResourceClaimTemplates may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.resource_claims import GROUP, claim_path, request, spec

JSON = dict[str, Any]
OPAQUE = {"driver": "d.example.com", "parameters": {"a": 1}}


def cel(expression: str) -> JSON:
    return {"cel": {"expression": expression}}


ACCEPTED: dict[str, JSON] = {
    "ok": spec(),
    "empty": {},
    "norequests": {"devices": {}},
    "fa": spec({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]}),
    "all": spec(request(allocationMode="All")),
    "mode-empty": spec(request(allocationMode="")),
    "zero": spec(request(count=0)),
    "tol": spec(
        request(
            tolerations=[
                {"key": "a", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
                {"operator": "Exists"},
            ]
        )
    ),
    "toleration-noop": spec(request(tolerations=[{"key": "a"}])),
    "toleration-emptyop": spec(request(tolerations=[{"key": "a", "operator": ""}])),
    "toleration-many": spec(request(tolerations=[{"key": f"a{i}", "operator": "Exists"} for i in range(17)])),
    "cel": spec(
        request(
            selectors=[
                cel('device.driver == "x" && device.attributes["x.io"].model == "y" && device.allowMultipleAllocations')
            ]
        )
    ),
    "selector-in": spec(request(selectors=[cel('"x.io" in device.attributes && "a" in device.attributes["x.io"]')])),
    "selector-dyn": spec(request(selectors=[cel('device.attributes["x.io"].model')])),
    "con": spec(constraints=[{"requests": ["r"], "matchAttribute": "x.io/a"}]),
    "constraint-distinct": spec(constraints=[{"distinctAttribute": "x.io/a"}]),
    "constraint-two": spec(constraints=[{"matchAttribute": "x.io/a", "distinctAttribute": "x.io/a"}]),
    "constraint-slashes": spec(constraints=[{"matchAttribute": "a/b/c"}]),
    "cfg": spec(config=[{"requests": ["r"], "opaque": OPAQUE}]),
    "configuration-upper": spec(config=[{"opaque": {"driver": "D.example.com", "parameters": {}}}]),
    "cap": spec(request(capacity={"requests": {"memory": "1Gi"}})),
}
REFUSED: dict[str, tuple[JSON, str]] = {
    "noname": (
        spec({"exactly": {"deviceClassName": "c"}}),
        'spec.devices.requests[0].name: Invalid value: "": a lowercase RFC 1123 label',
    ),
    "badname": (
        spec({"name": "R_", "exactly": {"deviceClassName": "c"}}),
        'spec.devices.requests[0].name: Invalid value: "R_": a lowercase RFC 1123 label',
    ),
    "neither": (
        spec({"name": "r"}),
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
    ),
    "both": (
        spec(
            {
                "name": "r",
                "exactly": {"deviceClassName": "c"},
                "firstAvailable": [{"name": "a", "deviceClassName": "c"}],
            }
        ),
        "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
    ),
    "alternatives-dup": (
        spec({"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}] * 2}),
        'spec.devices.requests[0].firstAvailable[1]: Duplicate value: {"name":"a","deviceClassName":"c","allocationMode":"ExactCount","count":1}',
    ),
    "alternatives-noname": (
        spec({"name": "r", "firstAvailable": [{"deviceClassName": "c"}]}),
        'spec.devices.requests[0].firstAvailable[0].name: Invalid value: "": a lowercase RFC 1123 label',
    ),
    "alternatives-many": (
        spec({"name": "r", "firstAvailable": [{"name": f"a{i}", "deviceClassName": "c"} for i in range(9)]}),
        "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items",
    ),
    "alternatives-noclass": (
        spec({"name": "r", "firstAvailable": [{"name": "a"}]}),
        "spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value",
    ),
    "dup": (
        spec(request(), request()),
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}',
    ),
    "dup-fields": (
        spec(
            request(),
            {
                "exactly": {
                    "capacity": {"requests": {"b": "1Gi", "a": "2"}},
                    "tolerations": [{"operator": "Exists", "key": "k", "effect": "NoExecute"}],
                    "count": 3,
                    "selectors": [cel("true")],
                    "deviceClassName": "c",
                },
                "name": "r",
            },
        ),
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}],"allocationMode":"ExactCount","count":3,"tolerations":[{"key":"k","operator":"Exists","effect":"NoExecute"}],"capacity":{"requests":{"a":"2","b":"1Gi"}}}}',
    ),
    "dup-alternatives": (
        spec(request(), {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c", "count": 2}]}),
        'spec.devices.requests[1]: Duplicate value: {"name":"r","firstAvailable":[{"name":"a","deviceClassName":"c","allocationMode":"ExactCount","count":2}]}',
    ),
    "many": (
        spec(*[{**request(), "name": f"r{i}"} for i in range(33)]),
        "spec.devices.requests: Too many: 33: must have at most 32 items",
    ),
    "noclass": (spec({"name": "r", "exactly": {}}), "spec.devices.requests[0].exactly.deviceClassName: Required value"),
    "badclass": (
        spec(request(deviceClassName="C_")),
        'spec.devices.requests[0].exactly.deviceClassName: Invalid value: "C_": a lowercase RFC 1123 subdomain',
    ),
    "mode": (
        spec(request(allocationMode="x")),
        'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "x": supported values: "All", "ExactCount"',
    ),
    "allcount": (
        spec(request(allocationMode="All", count=2)),
        "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
    ),
    "neg": (
        spec(request(count=-1)),
        "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
    ),
    "admin": (
        spec(request(adminAccess=True)),
        "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
    ),
    "toleration-badop": (
        spec(request(tolerations=[{"key": "a", "operator": "x"}])),
        'spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "x": supported values: "Equal", "Exists"',
    ),
    "toleration-eff": (
        spec(request(tolerations=[{"key": "a", "operator": "Exists", "effect": "x"}])),
        'spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"',
    ),
    "toleration-val": (
        spec(request(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}])),
        'spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`',
    ),
    "toleration-valeq": (
        spec(request(tolerations=[{"key": "a", "operator": "Equal", "value": "-x"}])),
        'spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "-x": a valid label must be',
    ),
    "toleration-key": (
        spec(request(tolerations=[{"key": "a b", "operator": "Exists"}])),
        'spec.devices.requests[0].exactly.tolerations[0].key: Invalid value: "a b": name part must consist',
    ),
    "selector-cap3": (
        spec(request(selectors=[cel('device.capacity["x.io"].memory')])),
        'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.capacity[\\"x.io\\"].memory": must evaluate to bool or the unknown type, not kubernetes.Quantity',
    ),
    "selector-none": (
        spec(request(selectors=[{}])),
        "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
    ),
    "selector-syntax": (
        spec(request(selectors=[cel("device.driver ==")])),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.driver ==\": compilation failed: ERROR: <input>:1:17: Syntax error: mismatched input '<EOF>'",
    ),
    "selector-type": (
        spec(request(selectors=[cel("device.driver")])),
        'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string',
    ),
    "selector-unknown": (
        spec(request(selectors=[cel("device.foo == 1")])),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.foo == 1\": compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^",
    ),
    "selector-var": (
        spec(request(selectors=[cel("foo == 1")])),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"foo == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
    ),
    "selector-long": (
        spec(request(selectors=[cel('"' + "a" * 10240 + '" == "a"')])),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
    ),
    "selector-many": (
        spec(request(selectors=[cel("true")] * 33)),
        "spec.devices.requests[0].exactly.selectors: Too many: 33: must have at most 32 items",
    ),
    "constraint-none": (
        spec(constraints=[{"requests": ["r"]}]),
        'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set',
    ),
    "constraint-unq": (
        spec(constraints=[{"matchAttribute": "a"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be a domain and a name separated by a slash',
    ),
    "constraint-bad": (
        spec(constraints=[{"matchAttribute": "x.io/a-b"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "a-b": a valid C identifier',
    ),
    "constraint-nodomain": (
        spec(constraints=[{"matchAttribute": "/a"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "": prefix must not be empty',
    ),
    "constraint-noname": (
        spec(constraints=[{"matchAttribute": "x.io/"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "": name must not be empty',
    ),
    "constraint-dombad": (
        spec(constraints=[{"matchAttribute": "x_/a"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "x_": prefix: a lowercase RFC 1123 subdomain',
    ),
    "constraint-domupper": (
        spec(constraints=[{"matchAttribute": "X.io/a"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "X.io": prefix: a lowercase RFC 1123 subdomain',
    ),
    "constraint-domlong": (
        spec(constraints=[{"matchAttribute": "d" * 64 + "/a"}]),
        "spec.devices.constraints[0].matchAttribute: Too long: may not be more than 63 bytes",
    ),
    "constraint-distinctbad": (
        spec(constraints=[{"matchAttribute": "x.io/a", "distinctAttribute": "/a"}]),
        'spec.devices.constraints[0].distinctAttribute: Invalid value: "": prefix must not be empty',
    ),
    "constraint-longid": (
        spec(constraints=[{"matchAttribute": "x.io/" + "a" * 33}]),
        "spec.devices.constraints[0].matchAttribute: Too long: may not be more than 32 bytes",
    ),
    "constraint-empty": (
        spec(constraints=[{"matchAttribute": ""}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "": a valid C identifier',
    ),
    "constraint-ref": (
        spec(constraints=[{"requests": ["x"], "matchAttribute": "x.io/a"}]),
        "spec.devices.constraints[0].requests[0]: Invalid value: \"x\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
    ),
    "constraint-refbad": (
        spec(constraints=[{"requests": ["X_"], "matchAttribute": "x.io/a"}]),
        'spec.devices.constraints[0].requests[0]: Invalid value: "X_": a lowercase RFC 1123 label',
    ),
    "constraint-ref3": (
        spec(constraints=[{"requests": ["r/a/b"], "matchAttribute": "x.io/a"}]),
        "spec.devices.constraints[0].requests[0]: Invalid value: \"r/a/b\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
    ),
    "constraint-refsub": (
        spec(constraints=[{"requests": ["r/a"], "matchAttribute": "x.io/a"}]),
        "spec.devices.constraints[0].requests[0]: Invalid value: \"r/a\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
    ),
    "constraint-refdup": (
        spec(constraints=[{"requests": ["r", "r"], "matchAttribute": "x.io/a"}]),
        'spec.devices.constraints[0].requests[1]: Duplicate value: "r"',
    ),
    "constraint-many": (
        spec(constraints=[{"matchAttribute": "x.io/a"}] * 33),
        "spec.devices.constraints: Too many: 33: must have at most 32 items",
    ),
    "configuration-none": (spec(config=[{"requests": ["r"]}]), "spec.devices.config[0].opaque: Required value"),
    "configuration-nodriver": (
        spec(config=[{"opaque": {"parameters": {}}}]),
        "spec.devices.config[0].opaque.driver: Required value",
    ),
    "configuration-noparam": (
        spec(config=[{"opaque": {"driver": "d"}}]),
        "spec.devices.config[0].opaque.parameters: Required value",
    ),
    "configuration-list": (
        spec(config=[{"opaque": {"driver": "d", "parameters": [1]}}]),
        'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
    ),
    "configuration-null": (
        spec(config=[{"opaque": {"driver": "d", "parameters": None}}]),
        "spec.devices.config[0].opaque.parameters: Required value",
    ),
    "configuration-str": (
        spec(config=[{"opaque": {"driver": "d", "parameters": "x"}}]),
        'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
    ),
    "configuration-long": (
        spec(config=[{"opaque": {"driver": "d", "parameters": {"a": "b" * 10240}}}]),
        "spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes",
    ),
    "configuration-drvlong": (
        spec(config=[{"opaque": {"driver": "d" * 64, "parameters": {}}}]),
        "spec.devices.config[0].opaque.driver: Too long: may not be more than 63 characters",
    ),
    "configuration-drvbad": (
        spec(config=[{"opaque": {"driver": "d_", "parameters": {}}}]),
        'spec.devices.config[0].opaque.driver: Invalid value: "d_": an RFC 1123 subdomain must consist of alphanumeric characters',
    ),
    "configuration-drvwide": (
        spec(config=[{"opaque": {"driver": "é" * 32, "parameters": {}}}]),
        "spec.devices.config[0].opaque.driver: Too long: may not be more than 63 bytes",
    ),
    "configuration-order": (
        spec(config=[{"opaque": {"driver": "d_"}}]),
        "spec.devices.config[0].opaque.parameters: Required value",
    ),
    "configuration-many": (
        spec(config=[{"opaque": OPAQUE}] * 33),
        "spec.devices.config: Too many: 33: must have at most 32 items",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_claim_is_accepted(served: Any, namespace: str, case: str) -> None:
    body = {"metadata": {"name": case}, "spec": ACCEPTED[case]}
    answer = served.request("POST", f"{claim_path(namespace)}?dryRun=All", body)
    assert answer.status == 201, answer.body


@pytest.mark.parametrize("case", REFUSED)
def test_a_claim_is_refused(served: Any, namespace: str, case: str) -> None:
    asked, message = REFUSED[case]
    body = {"metadata": {"name": case}, "spec": asked}
    answer = served.request("POST", f"{claim_path(namespace)}?dryRun=All", body)
    assert answer.status == 422, answer.body
    cause = answer.body["details"]["causes"][0]
    assert f"{cause['field']}: {cause['message']}".startswith(message)


@pytest.mark.parametrize("case", [case for case in REFUSED if case != "admin"])
def test_a_template_is_refused_with_the_path_of_its_inner_spec(served: Any, namespace: str, case: str) -> None:
    asked, message = REFUSED[case]
    body = {"metadata": {"name": case}, "spec": {"spec": asked}}
    answer = served.request("POST", f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates?dryRun=All", body)
    assert answer.status == 422, answer.body
    cause = answer.body["details"]["causes"][0]
    assert f"{cause['field']}: {cause['message']}".startswith(f"spec.{message}")
