"""Keys that no workload can have, expressions that no workload decides, and the key that was meant."""

from __future__ import annotations

import itertools
import re

import pytest

from app.wire import decode_json
from app.workloads.controller.stored import project_workload
from app.workloads.model import Expression, Operator
from app.workloads.rules.key_reach import Fixed, contradiction_in, fixed, unreachable, without_match
from app.workloads.rules.keys import Facts, compile_key, holds

LABEL = 'state.extra.labels."app.kubernetes.io/name"'
SPEC = {
    "metadata": {"id": "id1", "orchestrator": "kubernetes", "resourceType": "v1/Pod"},
    "state": {"nodeName": "host1", "extra": {"labels": {"app.kubernetes.io/name": "web", "app": "web"}}},
}


def document() -> bytes:
    """Of a workload, as rules see it."""
    obj = {"metadata": {"namespace": "tenant-tenant1", "name": "workload-id1"}, "spec": SPEC}
    return project_workload(obj).document


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("state.extra.labels.app.kubernetes.io", 'quote labels with dots: state.extra.labels."app.kubernetes.io"'),
        ("state.extra.annotations.a.b.c", 'quote annotations with dots: state.extra.annotations."a.b.c"'),
        ('state.extra.labels."x.y/z".w', 'quote labels with dots: state.extra.labels."x.y/z.w"'),
        ("metadata.labels.a.b", "metadata of a workload has id, .*, not 'labels': use state.extra.labels.\"a.b\""),
        ("labels.app", "a workload has metadata and state, not 'labels': use state.extra.labels.app"),
        ("metadata.name", "not 'name': use metadata.resourceName"),
        ("metadata.namespace", "not 'namespace': use metadata.resourceNamespace"),
        ("spec.nodeName", "not 'spec': use state.nodeName"),
        ("spec.state.extra.labels.a.b", 'use state.extra.labels."a.b"'),
        ("spec.metadata.resourceName", "use metadata.resourceName"),
        ("nodeName", "use state.nodeName"),
        ("state.node_name", "state of a workload has nodeName, ready and extra, not 'node_name': use state.nodeName"),
        ("Resource_Name", "use metadata.resourceName"),
        ("state.extra.label.app", "not 'label': use state.extra.labels.app"),
        ("state.extra.anotations.a.b", 'use state.extra.annotations."a.b"'),
        ("metdata.resourceName", "not 'metdata': use metadata.resourceName"),
        ("state.nodename", "use state.nodeName"),
        ("status.phase", "a workload has metadata and state, not 'status'$"),
        ("spec.containers", "not 'spec'$"),
        ("metadata.name.x", "not 'name'$"),
        ("state.extra.networks", "state.extra of a workload has labels and annotations, not 'networks'"),
        ("metadata.resourceName.x", "metadata.resourceName has no fields"),
    ],
)
def test_a_key_that_no_workload_can_have_is_corrected(key: str, why: str) -> None:
    assert re.search(why, unreachable(key))
    assert compile_key(key).evaluate(decode_json(document())) is None
    meant = unreachable(key).partition(": ")[2].removeprefix("use ")
    assert not meant or not unreachable(meant)


@pytest.mark.parametrize(
    "key",
    ["@", "metadata", "state.extra", "state.extra.labels.app", LABEL, "state.nodeName", "foo[0]", "a || metadata.name"],
)
def test_a_key_that_a_workload_may_have_or_that_computes_is_left_alone(key: str) -> None:
    assert unreachable(key) == ""


def test_a_workload_has_the_keys_that_are_said_to_be_in_all() -> None:
    for name in ("id", "orchestrator", "resourceType", "resourceName", "resourceNamespace"):
        assert compile_key(f"metadata.{name}").evaluate(decode_json(document())) is not None
        assert fixed(Expression(f"metadata.{name}", "Exists")) == Fixed(True, f"every workload has metadata.{name}")


@pytest.mark.parametrize(
    ("key", "operator", "values", "of_all"),
    [
        ("state.extra.labels.a.b", "In", "x", False),
        ("state.extra.labels.a.b", "Exists", "", False),
        ("state.extra.labels.a.b", "NotIn", "x", True),
        ("state.extra.labels.a.b", "DoesNotExist", "", True),
        ("state.extra.labels", "In", "web", False),
        ("state.extra.labels", "NotIn", "web", True),
        ("@", "In", "web", False),
        ("state.ready", "In", "True", False),
        ("state.ready", "NotIn", "True", True),
        ("state.ready", "DoesNotExist", "", False),
        ("metadata.resourceType", "In", "Pod", False),
        ("metadata.orchestrator", "In", "kubernetes", None),
        ("state.ready", "In", "true", None),
        ("state.nodeName", "DoesNotExist", "", None),
        ("state.extra.labels.app", "Exists", "", None),
        ("state.extra.labels.app", "In", "x", None),
        ("a | b", "In", "x", None),
    ],
)
def test_what_an_expression_is_for_every_workload(
    *, key: str, operator: Operator, values: str, of_all: bool | None
) -> None:
    expression = Expression(key, operator, frozenset(filter(None, [values])))
    found = fixed(expression)
    assert (None if found is None else found.holds) == of_all
    if found is not None:
        assert found.why
        assert holds([(expression,)], Facts(document())) == found.holds


def test_terms_without_a_match_are_named_with_their_first_reason() -> None:
    dead, open_one = Expression("nodeName", "Exists"), Expression("state.nodeName", "Exists")
    terms = ((open_one, dead, dead), (open_one,), (Expression("state", "In", frozenset("a")),))
    assert list(without_match(terms)) == [
        ("workloadTerms[0].matchExpressions[1].key", unreachable("nodeName")),
        ("workloadTerms[2].matchExpressions[0].key", "state is a map, which equals no text"),
    ]


NODE, APP, READY = "state.nodeName", "state.extra.labels.app", "state.ready"


def term(*expressions: str) -> tuple[Expression, ...]:
    """Each "KEY OPERATOR VALUES"; values are joined by commas."""
    parts = (text.split() for text in expressions)
    return tuple(
        Expression(key, operator, frozenset(",".join(values).split(",")) - {""}) for key, operator, *values in parts
    )


@pytest.mark.parametrize(
    ("expressions", "found"),
    [
        ([f"{NODE} In a", f"{NODE} In b"], (1, f"contradicts matchExpressions[0]: no {NODE} fulfills both")),
        ([f"{NODE} In a,b", f"{NODE} In b,c"], None),
        ([f"{NODE} In a", f"{APP} In b"], None),
        (
            [f"{NODE} In a", f"{APP} Exists", f"{NODE} NotIn a,b"],
            (2, f"contradicts matchExpressions[0]: no {NODE} fulfills both"),
        ),
        ([f"{NODE} Exists", f"{NODE} DoesNotExist"], (1, f"contradicts matchExpressions[0]: no {NODE} fulfills both")),
        ([f"{NODE} DoesNotExist", f"{NODE} In a"], (1, f"contradicts matchExpressions[0]: no {NODE} fulfills both")),
        ([f"{NODE} DoesNotExist", f"{NODE} NotIn a"], None),
        ([f"{APP} NotIn a", f"{APP} NotIn b", f"{APP} Exists"], None),
        (
            [f"{APP} In a,b", f"{APP} NotIn a", f"{APP} NotIn b"],
            (2, f"contradicts matchExpressions[0] and matchExpressions[1]: no {APP} fulfills all of them"),
        ),
        (
            [f"{READY} NotIn true", f"{READY} NotIn false"],
            (1, f"contradicts matchExpressions[0]: no {READY} fulfills both"),
        ),
        ([f"{READY} NotIn true,false"], (0, f"no workload has another value of {READY}")),
        ([f"{READY} NotIn true"], None),
        (
            ['state.extra.labels."app" In a', f"{APP} In b"],
            (1, f"contradicts matchExpressions[0]: no {APP} fulfills both"),
        ),
        (["a||b In x", "a||b In y"], (1, "contradicts matchExpressions[0]: no a||b fulfills both")),
        (["a||b In x", "b||a In y"], None),
        (["nodeName DoesNotExist", "nodeName NotIn a"], None),
    ],
)
def test_expressions_of_a_term_that_no_value_fulfills_together(
    expressions: list[str], found: tuple[int, str] | None
) -> None:
    assert contradiction_in(term(*expressions)) == found
    if found is not None:
        place, why = found
        assert list(without_match([term(*expressions)])) == [(f"workloadTerms[0].matchExpressions[{place}]", why)]


def test_no_workload_fulfills_a_contradiction() -> None:
    """Of all terms of three expressions, those are said to contradict themselves that no small workload fulfills."""
    one = [Expression(APP, "Exists"), Expression(APP, "DoesNotExist")]
    one += [Expression(APP, operator, frozenset(values)) for operator in ("In", "NotIn") for values in ("a", "b", "ab")]
    workloads = [facts_of(value) for value in ("a", "b", "c", None)]
    for expressions in itertools.product(one, repeat=3):
        held = any(holds([expressions], facts) for facts in workloads)
        assert (contradiction_in(expressions) is None) == held, expressions


def facts_of(app: str | None) -> Facts:
    labels = {} if app is None else {"app": app}
    spec = {**SPEC, "state": {"extra": {"labels": labels}}}
    return Facts(
        project_workload({"metadata": {"namespace": "tenant-a", "name": "workload-id1"}, "spec": spec}).document
    )


@pytest.mark.parametrize(
    "text",
    [
        "state.extra.labels.app.kubernetes.io/name",
        "labels.app.kubernetes.io/name",
        "metadata.labels.app.kubernetes.io/name",
        'state.extra.labels["app.kubernetes.io/name"]',
        "state.extra.labels['app.kubernetes.io/name']",
        "state.extra.labels.'app.kubernetes.io/name'",
    ],
)
def test_a_label_that_is_not_quoted_is_corrected_where_the_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"at character \d+.*; write ") as raised:
        compile_key(text)
    assert str(raised.value).endswith(f"; write {LABEL}")
