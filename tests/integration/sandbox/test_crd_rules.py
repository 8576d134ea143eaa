"""`x-kubernetes-validations` over HTTP; every message was compared with a real API server's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GROUP = "rules.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TEXT = {"type": "string", "maxLength": 9}
NUMBER = {"type": "integer"}


def rules(*texts: str | dict[str, Any]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": one} if isinstance(one, str) else one for one in texts]}


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def definition(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": fields(spec=spec, status=status or {"type": "object"})},
    }
    return {
        "metadata": {"name": f"boxes.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [version],
        },
    }


class Boxes:
    def __init__(self, served: Any, namespace: str) -> None:
        self._served = served
        self._path = f"/apis/{GROUP}/v1/namespaces/{namespace}/boxes"

    def define(self, spec: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        self._served.define(definition(spec, status))

    def create(self, spec: Any) -> Any:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": spec}
        return self._served.request("POST", self._path, body)

    def merge(self, body: Any, subresource: str = "") -> Any:
        return self._served.request("PATCH", f"{self._path}/b{subresource}", body, content_type=MERGE)

    def apply(self, body: Any, query: str) -> Any:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Box", "metadata": {"name": "b"}, **body}
        return self._served.request("PATCH", f"{self._path}/b{query}", body, content_type=APPLY)

    def get(self) -> Any:
        return self._served.request("GET", f"{self._path}/b").body

    def replace(self, body: Any) -> Any:
        return self._served.request("PUT", f"{self._path}/b", body)


@pytest.fixture
def boxes(served: Any, namespace: str) -> Any:
    yield Boxes(served, namespace)
    served.undefine(f"boxes.{GROUP}")


def fault(answer: Any) -> str:
    assert answer.status == 422, answer.body
    return str(answer.body["message"].partition(" is invalid: ")[2])


LEVELS = fields(
    o={**fields(x={"type": "string"}), **rules('self.x == "ok"')},
    s={**TEXT, **rules({"rule": 'self.startsWith("a")', "message": "must a"})},
    d={"type": "number", **rules("self / 2.0 > 0.5")},
    l={"type": "array", "maxItems": 3, "items": {**TEXT, **rules('self != "z"')}, **rules("self.size() < 2")},
    m={"type": "object", "additionalProperties": {**TEXT, **rules('self != "z"')}},
    i={"x-kubernetes-int-or-string": True, **rules("type(self) == int || self == '1'")},
    n={"type": "string", "nullable": True, **rules("self == 'a'")},
    r={**fields(a=TEXT, c={"type": "array", "items": NUMBER, "maxItems": 3}),
       **rules({"rule": "self.a != 'x'", "message": "not x", "reason": "FieldValueForbidden", "fieldPath": ".a"},
               {"rule": "self.a != 'y'", "message": "m", "messageExpression": "'a is ' + self.a"},
               {"rule": "self.a != 'w'", "message": " trimmed ", "messageExpression": "self.a + (self.c[0] == 1 ? '' : '!')"},
               {"rule": "self.a != 'v'", "reason": "FieldValueDuplicate"})},
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"o": {"x": "no"}}, 'spec.o: Invalid value: failed rule: self.x == "ok"'),
        ({"o": {}}, 'spec.o: Invalid value: "object": no such key: x evaluating rule: self.x == "ok"'),
        ({"s": "b"}, 'spec.s: Invalid value: "b": must a'),
        ({"d": 1}, "spec.d: Invalid value: 1: failed rule: self / 2.0 > 0.5"),
        ({"l": ["a", "b"]}, "spec.l: Invalid value: failed rule: self.size() < 2"),
        ({"l": ["z"]}, 'spec.l[0]: Invalid value: "z": failed rule: self != "z"'),
        ({"m": {"a.b": "z"}}, 'spec.m[a.b]: Invalid value: "z": failed rule: self != "z"'),
        ({"i": "a"}, "spec.i: Invalid value: \"a\": failed rule: type(self) == int || self == '1'"),
        ({"n": "b"}, "spec.n: Invalid value: \"b\": failed rule: self == 'a'"),
        ({"r": {"a": "x"}}, "spec.r.a: Forbidden: not x"),
        ({"r": {"a": "y"}}, "spec.r: Invalid value: a is y"),
        ({"r": {"a": "w"}}, "spec.r: Invalid value: trimmed"),
        ({"r": {"a": "v"}}, "spec.r: Duplicate value"),
        (
            {"s": "b" * 10, "l": ["z"]},
            (
                "[spec.s: Too long: may not be more than 9 bytes, <nil>: Invalid value: null: some validation rules were "
                "not checked because the object was invalid; correct the existing errors to complete validation]"
            ),
        ),
    ],
)
def test_a_rule_that_fails_is_reported_at_its_level(boxes: Any, spec: Any, text: str) -> None:
    boxes.define(LEVELS)
    assert fault(boxes.create(spec)) == text


def test_rules_of_absent_and_null_values_are_not_run(boxes: Any) -> None:
    boxes.define(LEVELS)
    assert boxes.create({"n": None, "i": 5, "m": {}}).status == 201


MOVES = {
    **fields(
        a={**TEXT, **rules("self == oldSelf")},
        n={**NUMBER, **rules({"rule": "oldSelf.orValue(self) <= self", "optionalOldSelf": True})},
        l={"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
           "items": {**fields(k=TEXT, v=NUMBER), "required": ["k"], **rules("self.v >= oldSelf.v")}},
        d={**TEXT, "default": "x"},
        t={**TEXT, **rules("self != 'old'")},
    ),
    **rules("self.d == oldSelf.d"),
}  # fmt: skip


@pytest.mark.parametrize("way", ["merge", "apply", "put"])
def test_transition_rules_compare_with_the_old_value(boxes: Any, way: str) -> None:
    boxes.define(MOVES)
    elements = [{"k": "a", "v": 5}, {"k": "b", "v": 5}]
    made = boxes.create({"a": "1", "n": 5, "l": elements})
    assert made.body["spec"]["d"] == "x"
    write: dict[str, Callable[[Any], Any]] = {
        "merge": lambda spec: boxes.merge({"spec": spec}),
        "apply": lambda spec: boxes.apply({"spec": spec}, "?fieldManager=f&force=true"),
        "put": lambda spec: boxes.replace({**boxes.get(), "spec": {**boxes.get()["spec"], **spec}}),
    }
    assert fault(write[way]({"a": "2"})) == 'spec.a: Invalid value: "2": failed rule: self == oldSelf'
    assert fault(write[way]({"n": 4})) == "spec.n: Invalid value: 4: failed rule: oldSelf.orValue(self) <= self"
    lower = [{"k": "b", "v": 4}, {"k": "a", "v": 7}]
    if way != "apply":
        assert fault(write[way]({"l": lower})) == "spec.l[0]: Invalid value: failed rule: self.v >= oldSelf.v"
    assert fault(write[way]({"d": "y"})) == "spec: Invalid value: failed rule: self.d == oldSelf.d"
    assert write[way]({"n": 6}).status == 200


def test_a_removed_value_may_come_back_as_another_one(boxes: Any) -> None:
    boxes.define(MOVES)
    boxes.create({"a": "1"})
    assert boxes.merge({"spec": {"a": None}}).status == 200
    assert boxes.merge({"spec": {"a": "2"}}).body["spec"]["a"] == "2"


def test_what_an_update_leaves_alone_is_not_blamed(boxes: Any, served: Any) -> None:
    boxes.define(fields(t=TEXT, n=NUMBER))
    boxes.create({"t": "old", "n": 1})
    stricter = {"spec": definition(fields(t={**TEXT, **rules("self != 'old'")}, n=NUMBER))["spec"]}
    assert served.request("PATCH", f"{CRDS}/boxes.{GROUP}", stricter, content_type=MERGE).status == 200
    assert boxes.merge({"spec": {"n": 2}}).status == 200
    boxes.merge({"spec": {"t": "new"}})
    assert fault(boxes.merge({"spec": {"t": "old"}})) == "spec.t: Invalid value: \"old\": failed rule: self != 'old'"


STATUS = fields(
    n={**NUMBER, **rules("self > 0")},
    l={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
       "items": {**fields(id={"type": "string"}, v=NUMBER), "required": ["id"]}},
)  # fmt: skip


def test_the_status_is_judged_on_its_own_endpoint(boxes: Any) -> None:
    boxes.define(fields(x={"type": "string"}), STATUS)
    boxes.create({"x": "a"})
    assert fault(boxes.merge({"status": {"n": -1}}, "/status")) == "status.n: Invalid value: -1: failed rule: self > 0"
    written = boxes.merge({"spec": {"x": "b"}, "status": {"n": 1}}, "/status").body
    assert (written["spec"], written["status"], written["metadata"]["generation"]) == ({"x": "a"}, {"n": 1}, 1)
    assert boxes.merge({"status": {"n": -7}, "spec": {"x": "b"}}).body["metadata"]["generation"] == 2


def test_lists_by_key_merge_in_an_applied_status(boxes: Any) -> None:
    boxes.define(fields(x={"type": "string"}), STATUS)
    boxes.create({"x": "a"})
    boxes.merge({"status": {"l": [{"id": "a", "v": 1}]}}, "/status")
    boxes.apply({"status": {"l": [{"id": "b", "v": 1}]}}, "/status?fieldManager=one")
    second = boxes.apply({"status": {"l": [{"id": "c", "v": 1}, {"id": "b", "v": 1}]}}, "/status?fieldManager=two").body
    assert [element["id"] for element in second["status"]["l"]] == ["a", "c", "b"]
    refused = boxes.apply({"status": {"l": [{"id": "c", "v": 3}]}}, "/status?fieldManager=one")
    assert (refused.status, refused.body["details"]["causes"][0]["field"]) == (409, '.status.l[id="c"].v')
    gone = boxes.apply({"status": {"l": [{"id": "b", "v": 1}]}}, "/status?fieldManager=two").body
    assert [element["id"] for element in gone["status"]["l"]] == ["a", "b"]
    twice = boxes.merge({"status": {"l": [{"id": "a"}, {"id": "a"}]}}, "/status")
    assert fault(twice) == 'status.l[1]: Duplicate value: {"id":"a"}'


TYPED = {
    **fields(
        a=TEXT, b={"type": "boolean"}, n=NUMBER, d={"type": "number"}, o=fields(x={"type": "string"}),
        l={"type": "array", "items": TEXT, "maxItems": 9}, m={"type": "object", "additionalProperties": {"type": "string"}},
        q={"type": "string", "format": "date-time"}, any={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        namespace=TEXT, **{"a-b": TEXT, "i": {"x-kubernetes-int-or-string": True}},
    )
}  # fmt: skip


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.map(x, x.size()).all(i, i > 1) && self.l.filter(x, x != '').size() > 0",
        "self.n % 2 == 0 && self.n * 2 > self.n / 2 && self.n > 1.5",
        "self.a in ['a', 'b'] && 'k' in self.m && self.m.k == 'a' && self.m['a'] == self.l[0]",
        '{"a": [1, 2]}.a[0] == 1 && [] == [] && {} == {}',
        "self.__namespace__ == 'a' && self.a__dash__b == 'x'",
        "!has(self.o) || (has(self.o.x) ? self.o.x == 'a' : self.b)",
        "self.i == 1 || self.i == 'a' || type(self.i) == string",
        "self.a.lowerAscii().split(',').size() == 1 && self.a.matches('^[a-z]+$') && size(self.l) == 0",
        "'\\x41' == \"A\" && r'\\d' == 'x' && self.a != '''x''' && 0x1F == 31 && 1e3 > 1.0 // a comment",
        "self == oldSelf && self.o != oldSelf.o",
    ],
)
def test_rules_that_a_real_server_takes(served: Any, rule: str) -> None:
    answer = served.request("POST", f"{CRDS}?dryRun=All", definition({**TYPED, **rules(rule)}))
    assert answer.status == 201, answer.body["message"]


AT = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("rule", "field", "text"),
    [
        ("self.zzz == 1", "rule", "ERROR: <input>:1:5: undefined field 'zzz'\n | self.zzz == 1\n | ....^"),
        ("self.any.x == 1", "rule", "undefined field 'x'"),
        ("self.a == 1", "rule", "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.a == null", "rule", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("self.n + self.d > 1.0", "rule", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("foo(self.a)", "rule", "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')"),
        ("self.a.startsWith(1)", "rule", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.a || self.b", "rule", "expected type 'bool' but found 'string'"),
        ("self.all(k, k == 'a')", "rule", "cannot be range of a comprehension (must be list, map, or dynamic)"),
        ("self.l['a'] == 'x'", "rule", "found no matching overload for '_[_]' applied to '(list(string), string)'"),
        ("has(self)", "rule", "ERROR: <input>:1:5: invalid argument to has() macro"),
        ("self.a.matches('(')", "rule", "ERROR: <input>:1:16: invalid matches argument"),
        ("self.a ==", "rule", "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>'"),
        ("self.a", "rule", '"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool'),
        ("self.a", "rule", ': Invalid value: {"Rule":"self.a","Message":"","MessageExpression":"","Reason":null,'),
        ("  ", "rule", "Required value: rule is not specified"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression", "messageExpression must evaluate to a string"),
        ({"rule": "true", "messageExpression": "self.zz"}, "messageExpression", "messageExpression compilation failed: "),
        ({"rule": "true", "reason": "Bad"}, "reason", 'Unsupported value: "Bad": supported values: "FieldValueDuplicate"'),
        ({"rule": "true", "fieldPath": ".zz"}, "fieldPath", 'Invalid value: ".zz": must be a valid path'),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf", "may not be set if oldSelf is not used in rule"),
        ({"rule": "true", "message": "a\nb"}, "message", "must not contain line breaks"),
        ("true ||\n false", "message", "Required value: message must be specified if rule contains line breaks"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_served_are_refused(served: Any, rule: Any, field: str, text: str) -> None:
    answer = served.request("POST", f"{CRDS}?dryRun=All", definition({**TYPED, **rules(rule)}))
    assert fault(answer).startswith(f"{AT}.{field}: ")
    assert text in answer.body["message"]


SPANS = fields(d={"type": "string", "format": "duration"}, t=TEXT)


@pytest.mark.parametrize(
    ("rule", "spec", "holds"),
    [
        ("self.d < duration('1h')", {"d": "59m59.5s"}, True),
        ("self.d < duration('1h')", {"d": "1h0m"}, False),
        ("self.d + duration('30m') == duration('2h') - duration(self.t)", {"d": "30m", "t": "1h"}, True),
        ("self.d.getMinutes() == 90 && self.d.getHours() == 1", {"d": "1h30m"}, True),
        ("self.d.getSeconds() == -90 && self.d.getMilliseconds() == -90000", {"d": "-1.5m"}, True),
        ("string(self.d) == '5400.5s'", {"d": "1h30m500ms"}, True),
        ("self.t.matches('(?i)^ab$')", {"t": "aB"}, True),
    ],
)
def test_durations_and_flags_of_patterns(boxes: Any, rule: str, spec: Any, *, holds: bool) -> None:
    boxes.define({**SPANS, **rules(rule)})
    assert boxes.create(spec).status == (201 if holds else 422)


def test_a_literal_duration_is_judged_with_the_rule(served: Any) -> None:
    for rule, text in (("duration('1x') == self.d", "invalid duration argument"), ("self.d > 1", "(duration, int)")):
        answer = served.request("POST", f"{CRDS}?dryRun=All", definition({**SPANS, **rules(rule)}))
        assert text in fault(answer)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("quantity(self.a).isInteger()", "the sandbox does not speak quantity()"),
        ("self.q == self.q", "the sandbox does not speak values of the format date-time"),
    ],
)
def test_rules_beyond_the_subset_are_refused(sandboxed: Any, rule: str, text: str) -> None:
    answer = sandboxed.request("POST", f"{CRDS}?dryRun=All", definition({**TYPED, **rules(rule)}))
    assert f"{AT}.rule: " in fault(answer)
    assert text in answer.body["message"]


LONG = {"type": "string"}
BUDGET = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"


@pytest.mark.parametrize(
    ("schema", "rule", "field", "factor"),
    [
        (TEXT, {"rule": "true", "messageExpression": "self + string(1)"}, "messageExpression", "more than 100x"),
        (TEXT, {"rule": "true", "messageExpression": "self + self"}, "messageExpression", ""),
        (LONG, "self.contains(self)", "rule", "more than 100x"),
        (LONG, "self.matches('^[a-z]+$')", "rule", ""),
        (LONG, f"self.matches('^{'a' * 128}$')", "rule", "1.038091x"),
        (LONG, f"self.matches('^{'a' * 512}$')", "rule", "4.1x"),
        ({"type": "array", "items": LONG}, "self.all(a, a != 'x')", "rule", ""),
        ({"type": "array", "items": LONG}, "self.all(a, self.all(b, a == b))", "rule", "more than 100x"),
        ({"type": "array", "maxItems": 1000, "items": NUMBER}, "self.all(a, self.exists(b, a == b))", "rule", ""),
        ({"type": "array", "maxItems": 2000, "items": NUMBER}, "self.all(a, self.exists(b, a == b))", "rule", "2.4x"),
        ({"type": "array", "items": TEXT}, "self.map(a, a + 'x').exists(b, b == 'yx')", "rule", "2.4x"),
        ({"type": "array", "items": TEXT}, "self.filter(a, a > 'x').exists_one(b, b in self)", "rule", "more than 100x"),
        ({"type": "array", "items": {**LONG, **rules("self.startsWith('a') && self.lowerAscii() == 'b'")}}, "true", "items.rule", "more than 100x"),
        ({"type": "object", "additionalProperties": NUMBER}, "self.all(k, k.size() < 9 && self[k] > 1)", "rule", ""),
        ({"type": "object", "additionalProperties": LONG}, "self.all(k, self[k].split(',').size() < 3)", "rule", "more than 100x"),
        (fields(l={"type": "array", "items": fields(s=TEXT)}), "self.l.all(e, has(e.s) && e.s.replace('a', 'bb') != '')", "rule", "1.468005x"),
        ({"type": "array", "maxItems": 30, "items": LONG}, "self.join(',') == self[0] && self.indexOf('a') == 1", "rule", "1.9x"),
        ({"type": "array", "maxItems": 4000, "items": NUMBER}, "self.all(a, self.sum() > a)", "rule", "1.6x"),
    ],
)  # fmt: skip
def test_the_cost_of_rules_is_bounded(served: Any, schema: Any, rule: Any, field: str, factor: str) -> None:
    answer = served.request("POST", f"{CRDS}?dryRun=All", definition(fields(f={**schema, **rules(rule)})))
    if not factor:
        assert answer.status == 201, answer.body["message"]
        return
    at = "spec.validation.openAPIV3Schema.properties[spec].properties[f]"
    word, _, name = field.rpartition(".")
    where = f"{at}.{word}.x-kubernetes-validations[0].{name}".replace("..", ".")
    text = f"{where}: Forbidden: estimated {name} cost exceeds budget by factor of {factor}{BUDGET}"
    assert text in fault(answer)


def test_the_cost_of_all_rules_together_is_bounded(served: Any) -> None:
    lists = {f"l{at}": {"type": "array", "items": {**TEXT, **rules("self != 'x' && self != 'y'")}} for at in range(40)}
    found = fault(served.request("POST", f"{CRDS}?dryRun=All", definition(fields(**lists))))
    assert (
        "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema" in found
    )
    assert "estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of " in found


def test_old_elements_of_a_list_without_keys_cannot_be_asked_for(served: Any) -> None:
    listed = {"type": "array", "items": fields(x={**TEXT, **rules("self == oldSelf")})}
    answer = served.request("POST", f"{CRDS}?dryRun=All", definition(fields(a=listed)))
    assert "oldSelf cannot be used on the uncorrelatable portion of the schema within " in fault(answer)


EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("value", "status", "text"),
    [
        ({}, 422, "[spec.e.apiVersion: Required value, spec.e.kind: Required value, <nil>: Invalid value: null: some"),
        ({"apiVersion": "", "kind": "P"}, 422, 'spec.e.apiVersion: Invalid value: "": must not be empty'),
        ({"apiVersion": "a/b/c", "kind": "P"}, 422, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": "v1", "kind": "P_d"}, 422, "may have mixed case, but should otherwise match: a DNS-1035 label"),
        ({"apiVersion": "v1", "kind": "P", "metadata": {"name": "a/b"}}, 422, "may not contain '/'"),
        ({"apiVersion": "v1", "kind": "P", "metadata": {"labels": {"a": "b c"}}}, 422, "spec.e.metadata.labels: Invalid"),
        ({"apiVersion": "v1", "kind": 3}, 400, "spec.e.kind: Invalid value: 3: must be a string"),
        ({"apiVersion": "v1", "kind": "P", "metadata": []}, 400, "json: cannot unmarshal array into Go value of type"),
        ({"apiVersion": "v1", "kind": "P", "metadata": {"name": 5}}, 400, "json: cannot unmarshal number into Go struct"),
        ({"apiVersion": "v1", "kind": "P", "metadata": {"name": "q"}}, 422, "failed rule: !has(self.metadata) || self.metadata.name"),
    ],
)  # fmt: skip
def test_embedded_objects_are_judged(boxes: Any, value: Any, status: int, text: str) -> None:
    boxes.define(fields(e={**EMBEDDED, **rules("!has(self.metadata) || self.metadata.name == 'X_Y'")}))
    answer = boxes.create({"e": value})
    assert (answer.status, text in answer.body["message"]) == (status, True), answer.body["message"]


def test_embedded_metadata_is_decoded(boxes: Any) -> None:
    boxes.define(fields(e=EMBEDDED))
    metadata = {"name": "X_Y", "zzz": 1, "labels": None, "creationTimestamp": None}
    made = boxes.create({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "any": {"kept": None}}})
    assert made.body["spec"]["e"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "X_Y"},
        "any": {"kept": None},
    }
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.e.metadata.zzz\\""'
