"""Keys: the language, its limits and its errors."""

from __future__ import annotations

import warnings

import jmespath
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.workloads.rules.keys import compile_key, rendered

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
DOCUMENT = {
    "metadata": {"id": "x", "resourceName": "p1"},
    "state": {
        "ready": True,
        "extra": {"labels": {"app.kubernetes.io/name": "web", "k8s-app": "dns", "n": 3}, "list": [{"a": 1}, {"a": 2}]},
    },
}
NAMES = ["a", "b", "_c", "D9", "x-y", "k.io/n", "é", '"', "\\", ""]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


PATHS = st.lists(
    st.one_of(st.sampled_from(["a", "b", "_c", "D9"]), st.sampled_from(NAMES).map(quoted)), min_size=1, max_size=5
).map(".".join)
EXPRESSIONS = st.one_of(
    PATHS,
    st.builds("@.{}".format, PATHS),
    st.builds("{}[0].{}".format, PATHS, PATHS),
    st.builds("{}[*].{}".format, PATHS, PATHS),
    st.builds("{}.*.{}".format, PATHS, PATHS),
    st.builds("{} || {}".format, PATHS, PATHS),
    st.builds("{}[?{} == {}]".format, PATHS, PATHS, PATHS),
    st.builds("[{}, {}][]".format, PATHS, PATHS),
    st.builds("{{a: {}, b: {}}}".format, PATHS, PATHS),
    st.builds("not_null({}, {})".format, PATHS, PATHS),
    st.builds("{} | keys(@)".format, PATHS),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("metadata.resourceName", "p1"),
        ("state.ready", True),
        ("state.nodeName", None),
        ("state.ready.nothing", None),
        ("@", DOCUMENT),
        ("@.metadata.id", "x"),
        ('state.extra.labels."app.kubernetes.io/name"', "web"),
        ('state.extra.labels."k8s-app"', "dns"),
        ("state.extra.list[1].a", 2),
        ("state.extra.list[*].a", [1, 2]),
        ("state.extra.list[?a == `2`] | [0].a", 2),
        ("length(state.extra.labels)", 3),
        ("metadata.id || 'none'", "x"),
        ("sort_by(state.extra.list, &a)[-1].a", 2),
    ],
)
def test_a_key_finds_its_value(text: str, value: object) -> None:
    assert compile_key(text).evaluate(DOCUMENT) == value


@QUICK
@given(text=EXPRESSIONS, document=VALUES)
def test_a_key_finds_what_jmespath_finds(text: str, document: object) -> None:
    try:
        wanted = jmespath.search(text, document)
    except ValueError:
        wanted = None
    found = compile_key(text).evaluate(document)
    assert repr(found) == repr(wanted)  # 1 and true are equal, and not the same


@QUICK
@given(text=PATHS)
def test_every_path_of_names_takes_the_short_way(text: str) -> None:
    assert compile_key(text).path is not None


def test_an_expression_that_computes_has_no_path() -> None:
    assert compile_key("a[0]").path is None
    assert compile_key("a | b").path is None


def test_a_key_is_compiled_once() -> None:
    assert compile_key("state.nodeName") is compile_key("state.nodeName")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must not be empty"),
        (" \n", "must not be empty"),
        ("labels.k8s-app", "'labels.k8s-app'.*at character 11, before '-app'.*double quotes"),
        ("a..b", "at character 3, before '.b'"),
        ("a b", "at character 3, before 'b'"),
        ("a.", "ends too early"),
        ("a[", "ends too early"),
        ('"a', "[Uu]nclosed"),
        ("nothing(@)", r"there is no function nothing\(\)"),
        ("length()", r"length\(\) takes 1 arguments, not 0"),
        ("not_null()", r"not_null\(\) takes at least 1 arguments, not 0"),
        ("length(a, b)", r"length\(\) takes 1 arguments, not 2"),
        ("&a", "& can only stand"),
        ("[&a]", "& can only stand"),
        ("to_string(&a)", "& can only stand"),
        ("`text`", "must be JSON"),
        ("a[::0]", "step of a slice"),
        ('`"\\ud800"`', "surrogate"),
        ('"\\ud800"', "surrogate"),
        ("`1e999`", "number"),
        ("`NaN`", "number"),
        ("x" * 1025, "has 1025 characters: at most 1024"),
        (".".join(["a"] * 65), "has 129 parts: at most 128"),
        ("(" * 120, "too early|deep"),
        ("!" * 60 + "a", "nested too deeply"),
        ("|".join(["a"] * 40), "nested too deeply"),
        ("a" + "[]" * 60, "nested too deeply"),
        ("`" + "[" * 1000 + "`", "deep"),
        ("`" + "[" * 40 + "]" * 40 + "`", "literal is nested too deeply"),
    ],
)
def test_a_bad_key_says_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_key(text)


def test_the_longest_allowed_keys_work() -> None:
    assert compile_key("x" * 1024).path == ("x" * 1024,)
    assert compile_key(".".join(["a"] * 64)).path == ("a",) * 64
    assert compile_key("|".join(["@"] * 32)).evaluate(7) == 7


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.one_of(
        st.text(max_size=30),
        st.text("ab.@*[]?(){}|&!<>='\"`\\-:,0 12\n", max_size=40),
        st.lists(
            st.sampled_from(
                [
                    "a",
                    ".",
                    "[",
                    "]",
                    "*",
                    "@",
                    "|",
                    "||",
                    "&",
                    "&&",
                    "!",
                    "==",
                    "<",
                    "(",
                    ")",
                    "length(",
                    "sort_by(",
                    ",",
                    "{",
                    "}",
                    "x:",
                    "`1`",
                    "'s'",
                    "[?",
                    "[]",
                    "0",
                    "-1",
                    ":",
                    "to_number(",
                    "contains(",
                    "ceil(",
                    "join(",
                ]
            ),
            max_size=14,
        ).map("".join),
    ),
    document=VALUES,
)
def test_whatever_the_text_there_is_a_key_or_a_value_error(text: str, document: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            key = compile_key(text)
        except ValueError:
            return
        rendered(key.evaluate(document))


@pytest.mark.parametrize(
    "text",
    ["length(`1`)", "contains('1', `1`)", "sort_by(@, &a)", "ceil(to_number('inf'))", "sum(['a'])", "max([`1`, 'a'])"],
)
def test_an_expression_that_does_not_fit_the_data_finds_nothing(text: str) -> None:
    assert compile_key(text).evaluate([{"a": 1}, {"a": "x"}]) is None


@pytest.mark.parametrize(
    "text",
    [
        "|".join(["[@,@]"] * 20),
        "|".join(["{a:@,b:@}"] * 12),
        "|".join(["[@,@]|[]"] * 12),
        "|".join(["join('',[to_string(@),to_string(@)])"] * 6),
        "map(&map(&map(&[@,@,@], @), @), @)",
        "[][].[`" + str(list(range(150))) + "`]",
        "[][].{a: `" + str(list(range(150))) + "`}",
        "[].contains(`" + str(list(range(150))) + "`, @)",
        "map(&`" + str(list(range(150))) + "`, [])",
    ],
)
def test_an_expression_that_multiplies_finds_nothing_soon(text: str) -> None:
    rows = [[[f"text {a} {b} {c}" for c in range(20)] for b in range(20)] for a in range(20)]
    assert compile_key(text).evaluate(rows) is None


def test_a_usual_computed_key_stays_within_the_budget_on_a_large_workload() -> None:
    annotations = {f"example.com/a{index}": "x" * 200 for index in range(60)}
    document = {"state": {"extra": {"annotations": annotations}}}
    assert compile_key("length(keys(state.extra.annotations))").evaluate(document) == 60
    assert compile_key("state.extra.annotations.*[]|[?starts_with(@, 'x')]|length(@)").evaluate(document) == 60


def test_an_expression_that_doubles_text_finds_nothing_soon() -> None:
    assert compile_key("|".join(["join('',[@,@])"] * 10)).evaluate("x" * 10_000) is None


BIG = {"a": list(range(2000)), "b": list(range(2000)), "short": [3, [4]], "other": {"x": 1}}


@pytest.mark.parametrize("text", ["a == b", "a != b", "a[]", "[a, a][0]", "a[::-1000]"])
def test_what_is_compared_flattened_or_sliced_is_paid_for(text: str) -> None:
    assert compile_key(text).evaluate(BIG) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("other == a", False),
        ("short == short", True),
        ("short[]", [3, 4]),
        ("short[::-1]", [[4], 3]),
        ("other[]", None),
    ],
)
def test_small_values_are_compared_flattened_and_sliced(text: str, found: object) -> None:
    assert compile_key(text).evaluate(BIG) == found


def test_a_function_may_look_at_a_long_annotation() -> None:
    assert compile_key("contains(@, 'y')").evaluate("x" * 200_000) is False
