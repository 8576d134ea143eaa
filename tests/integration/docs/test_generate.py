"""The generator of docs/reference: it says all there is, the same each time, and notices what is stale."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.admission import endpoint
from app.appwrappers.settings import WRAPPED_KINDS
from app.cli.roles import RoleCommand
from app.errors import UsageError
from app.permissions import declared
from app.registry import BY_NAME, settings_of
from app.wiring import CLUSTER_RULE
from app.workloads.settings import DEFAULT_QUOTA
from docs.generate import limits
from docs.generate.__main__ import main
from docs.generate.annotations import find_marks
from docs.generate.catalog import catalog
from docs.generate.contents import BEGIN, END, contents_page
from docs.generate.drawings import SOURCES
from docs.generate.flags import commands, said_default, settings_fields, shown, variables
from docs.generate.limits import limits_page
from docs.generate.modules import modules_page
from docs.generate.pages import FOLDERS, build_pages, stale_pages, write_pages
from docs.generate.texts import MissingTextError, Page, help_text, prose, table
from docs.generate.values import read_values, values_page
from tests.support.paths import ROOT

WebhookSettings = settings_of("webhook")

VALUES, SCHEMA = "charts/berth/values.yaml", "charts/berth/values.schema.json"
COMMANDS = {" ".join(path): command for path, command in commands()}
WORDS = {
    "the service account's CA": ("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",),
    "all": ("workloads", "tenants"),
    "$NAMESPACE or universe": "universe",
    "$NAMESPACE or kube-system": "kube-system",
    "$NODE_NAME": "",
    "on": True,
    "off": False,
    "any": None,
    "any name": (),
    "every driver": (),
    "that of Multus": ("k8s.v1.cni.cncf.io/resourceName",),
    CLUSTER_RULE: None,
    "its current one": None,
    "VersionTLS12": "",
    f"pods and {len(WRAPPED_KINDS) - 1} others": WRAPPED_KINDS,
}
"""Defaults that the help tells in words, and what they are."""
NEEDED = {"berth agent": {"gateway": "gateway.example:443"}, "berth rmd-node": {"node_name": "worker-1"}}
NEEDED["berth claims-node"] = NEEDED["berth rmd-node"]
"""Settings without which a role does not start."""


@pytest.fixture(scope="module")
def built() -> list[Page]:
    return build_pages(ROOT)


@pytest.fixture(scope="module")
def pages(built: list[Page]) -> dict[str, str]:
    return {page.path: page.text for page in built}


@pytest.fixture
def tree(tmp_path: Path, built: list[Page]) -> Path:
    """A project's directory with everything generated."""
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__", "openapi.json"))
    (tmp_path / VALUES).parent.mkdir(parents=True)
    for path in (VALUES, SCHEMA):
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(ROOT / SOURCES, tmp_path / SOURCES)
    (tmp_path / "docs").joinpath("troubleshooting.md").write_text(f"{BEGIN}\n{END}\n")
    assert write_pages(tmp_path, built) == sorted(page.path for page in built if page.path != SCHEMA)
    return tmp_path


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_what_was_generated_is_not_stale_until_it_is_changed(tree, capfd):
    assert main(["--check", "--root", str(tree)]) == 0
    assert capfd.readouterr() == ("", "")
    (tree / "docs/reference/flags.md").write_text("")
    (tree / VALUES).write_text((tree / VALUES).read_text() + "# -- Something new\nnewValue: 1\n")
    assert main(["--check", "--root", str(tree)]) == 1
    assert capfd.readouterr().err == (
        "docs/reference/flags.md is stale: run make generate\ndocs/reference/values.md is stale: run make generate\n"
    )
    assert main(["--root", str(tree)]) == 0
    assert "newValue" in (tree / "docs/reference/values.md").read_text()


@pytest.mark.parametrize(
    "path",
    [
        *(
            f"docs/reference/{name}.md"
            for name in (
                "flags",
                "values",
                "annotations",
                "crds",
                "limits",
                "metrics",
                "modules",
                "permissions",
                "status",
            )
        ),
        "docs/pictures/life-of-a-pod.svg",
        "docs/troubleshooting.md",
        "charts/berth/files/crds/infra.yaml",
        "charts/berth/files/crds/tenant.yaml",
        "charts/berth/files/roles.json",
        SCHEMA,
        "app/kinds/openapi.json",
    ],
)
def test_a_page_that_differs_or_is_missing_is_stale_until_it_is_generated(path, tree, built):
    assert stale_pages(tree, built) == []
    (tree / path).write_text((tree / path).read_text() + " ")
    assert stale_pages(tree, built) == [path]
    (tree / path).unlink()
    assert stale_pages(tree, built) == [path]
    assert write_pages(tree, built) == [path]
    assert stale_pages(tree, built) == []


def test_a_file_that_nothing_makes_is_stale_and_goes(tree, built):
    old = tree / FOLDERS[1] / "old.yaml"
    old.write_text("")
    assert write_pages(tree, built) == [f"{FOLDERS[1]}/old.yaml"]
    assert not old.exists()


def test_check_writes_nothing(tree):
    for folder in FOLDERS:
        shutil.rmtree(tree / folder)
    assert main(["--check", "--root", str(tree)]) == 1
    assert not any((tree / folder).exists() for folder in FOLDERS)


def test_contents_are_those_of_the_headings(tmp_path):
    text = "# A\n\n## No Pods: why?\n\n## Alerts\n\n### BerthDown\n\n## Findings\n\n### BERTH0002\n\n### BERTH0501\n"
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/troubleshooting.md"
    page.write_text(text)
    with pytest.raises(MissingTextError, match="between which the contents are written"):
        contents_page(tmp_path)
    page.write_text(f"{BEGIN}\nold\n{END}\n{text}")
    written = contents_page(tmp_path).text
    assert "old" not in written
    assert written.endswith(f"{END}\n{text}")
    assert "- [No Pods: why?](#no-pods-why)\n" in written
    assert "**By alert**: [BerthDown](#berthdown)\n" in written
    assert "| 00xx | every check | [0002](#berth0002) |\n| 05xx | `registrations` | [0501](#berth0501) |\n" in written


def test_a_limit_is_that_of_the_code(monkeypatch):
    """Of each kind: a constant of a module, a setting of the gateway, a default of a flag."""
    before = limits_page().text
    monkeypatch.setattr(endpoint, "BODY_LIMIT", 3 * 2**20)
    monkeypatch.setattr(limits, "_LIMITS", replace(limits._LIMITS, streams_per_tenant=5))
    monkeypatch.setattr(limits, "DEFAULT_QUOTA", {**DEFAULT_QUOTA, "secrets": 7})
    after = limits_page().text
    for old, new in (
        ("| body of a review | 7 MiB |", "| body of a review | 3 MiB |"),
        ("| streams of a tenant | 8 |", "| streams of a tenant | 5 |"),
        ("| `secrets` | 256 |", "| `secrets` | 7 |"),
    ):
        assert old in before
        assert new in after


def test_it_is_the_same_whatever_the_process(pages):
    """Sets have another order in each process that has another seed."""
    program = (
        "import hashlib, pathlib; from docs.generate.pages import build_pages;"
        f"print(hashlib.sha256(repr(sorted(build_pages(pathlib.Path({str(ROOT)!r})))).encode()).hexdigest())"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "COLUMNS": seed * 2},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "22")
    }
    assert len(answers) == 1


def test_no_page_has_a_row_with_another_number_of_cells(pages):
    for path, text in pages.items():
        if path.endswith(".md"):
            for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, (path, block)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_flag_of_each_command_is_there_with_its_text(name, pages):
    found = section(pages["docs/reference/flags.md"], name)
    parameters = shown(COMMANDS[name])
    assert found
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            assert re.search(
                rf"^\| `\[?{re.escape(parameter.metavar or parameter.name.upper())}\]?` \|", found, re.MULTILINE
            )
            continue
        names = ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
        [row] = [line for line in found.splitlines() if line.startswith(f"| {names} |")]
        assert not row.endswith("|  |")


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if settings_fields(command)))
def test_a_default_that_the_help_of_a_role_tells_is_that_of_its_settings(name):
    fields = settings_fields(COMMANDS[name])
    for parameter in shown(COMMANDS[name]):
        field, said = fields.get(parameter.name), said_default(parameter.help)
        if field is None:
            continue
        default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        if said in WORDS and said != field.default:
            assert WORDS[said] == field.default, parameter.name
        elif said:
            assert said == (f"{default:g}" if isinstance(default, float) else str(default)), parameter.name
        else:
            assert default in (None, "", False) or isinstance(default, bool), parameter.name


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if settings_fields(command)))
def test_each_variable_that_is_told_is_read(name, monkeypatch):
    """Nonsense in it is either refused under its name, or taken."""
    command = COMMANDS[name]
    settings = settings_of(command.role.name) if isinstance(command, RoleCommand) else WebhookSettings
    load = settings.load
    for known in [v for v in os.environ if v.startswith("BERTH_") or v in ("NAMESPACE", "NODE_NAME")]:
        monkeypatch.delenv(known)
    needed = NEEDED.get(name, {})
    before = load(dict(needed)).model_dump()
    for parameter, field in settings_fields(command).items():
        field_name = next(known for known, there in settings.model_fields.items() if there is field)
        for variable in variables(field_name, field):
            monkeypatch.setenv(variable, "nonsense")
            given = {key: value for key, value in needed.items() if key != field_name}
            try:
                told = str(load(given).model_dump()[field_name] != before[field_name])
            except UsageError as error:
                told = str(error)
            assert told == "True" or variable in told, parameter
            monkeypatch.delenv(variable)


def test_every_value_of_the_chart_is_there(pages):
    text = (ROOT / VALUES).read_text()
    page = pages["docs/reference/values.md"]
    leaves = [entry for entry in read_values(text) if entry.leaf]
    assert len(leaves) > 50
    for entry in leaves:
        assert f"| `{entry.path}` |" in page


def test_values_are_grouped_and_comments_joined():
    page = values_page(
        "# About all.\n\n# -- First\na: 1\n# Of b:\n# more\nb:\n  # -- Deep\n  # text\n  c: {x: [1]}\n  d:\n    # -- E\n    e: q\n"
    ).text
    assert "About all." in page
    assert "| `a` | `1` | First |" in page
    assert "## b\n\nOf b: more\n" in page
    assert '| `b.c` | `{"x": [1]}` | Deep text |' in page
    assert '| `b.d.e` | `"q"` | E |' in page


@pytest.mark.parametrize("text", ["a: 1\n", "# -- A\na: 1\nb: {c: 1}\n", "a:\n  # -- B\n  b: 1\n  c: 2\n"])
def test_a_value_without_a_comment_is_an_error(text):
    with pytest.raises(MissingTextError, match="has no comment above it"):
        read_values(text)


def test_a_key_without_a_text_is_an_error_that_says_where(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('NEW = "berth.dev/new"\n"""What it means."""\n')
    with pytest.raises(MissingTextError, match=re.escape(f"{module}: berth.dev/new")):
        find_marks(tmp_path)
    module.write_text('NEW = "berth.dev/new"\n"""Label on a Pod, by its author: what it\nmeans."""\nx = {NEW: 1}\n')
    assert find_marks(tmp_path) == [("berth.dev/new", "Label", "a Pod", "its author", "what it means")]


def test_every_metric_is_there_with_roles(pages):
    page = pages["docs/reference/metrics.md"]
    described = catalog()
    assert len(described) > 25
    for metric in described:
        assert f"| `{metric.name}` | {metric.kind} |" in page
        assert metric.text
        assert set(metric.roles) <= set(BY_NAME)


def test_every_permission_is_there(pages):
    page = pages["docs/reference/permissions.md"]
    for role in BY_NAME:
        assert section(page, role).count("\n| ") - 2 == len(declared(role))


def test_every_module_is_there_below_its_folder(pages):
    folder, listed = "", set()
    for line in pages["docs/reference/modules.md"].splitlines():
        folder = line.removeprefix("## ") if line.startswith("## ") else folder
        if row := re.match(r"\| `(\w+\.py)` \| \S", line):
            listed.add(f"{folder}/{row[1]}")
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app").rglob("*.py") if "_pb2" not in path.name}
    assert listed == {path for path in modules if not path.endswith("/__init__.py")}


def test_a_module_says_its_purpose_in_its_first_sentence(tmp_path):
    module = tmp_path / "app/part.py"
    module.parent.mkdir()
    module.write_text('"""Reads `a|b` and\nwrites <c>. More of it.\n"""\n')
    assert "| `part.py` | Reads `a\\|b` and writes &lt;c>. |" in modules_page(module.parent).text
    module.write_text("x = 1\n")
    with pytest.raises(MissingTextError, match=re.escape(f"{module} has no docstring")):
        modules_page(module.parent)


def test_the_chart_has_what_the_program_prints(pages, capfd):
    from app.cli.main import run  # noqa: PLC0415

    for name in ("infra", "tenant"):
        assert run(["crds", name]) == 0
        assert capfd.readouterr().out == pages[f"charts/berth/files/crds/{name}.yaml"]


def test_fields_of_lists_and_maps_are_told(pages):
    page = pages["docs/reference/crds.md"]
    assert "| `spec.metadata.id` | string, required |" in page
    assert "| `status.rules.tenant[].id` | string, required |" in page
    assert "| `spec.state.extra.labels` | map of string |" in page


def test_nothing_of_the_code_is_taken_for_markup():
    assert prose("a <name> *b* `<c> *`") == "a &lt;name> \\*b\\* `<c> *`"
    assert table(("a",), [("`x|y`",)]).splitlines()[-1] == "| `x\\|y` |"
    assert help_text("Say.\n\n  one\n\n  two\n\nMore\nof it.") == "Say.\n\n```\none\ntwo\n```\n\nMore of it."
