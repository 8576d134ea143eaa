"""The pages for people: links lead somewhere, every alert has its section, and what they name exists."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

from app.doctor.examining import CHECKS
from app.placement.model import TENANT_LABEL
from app.registry import BY_NAME
from docs.generate.catalog import catalog
from docs.generate.flags import commands
from tests.support.paths import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
WRITTEN = [page for page in PAGES if not page.startswith("docs/reference/")]
"""Those that no generator keeps true."""
ALERTS = "charts/berth/files/alerts.yaml"
APP = ROOT / "app"
RUNBOOK = "docs/troubleshooting.md"
START = "docs/README.md"
TERMS = {
    *("companion", "mirror", "infra cluster", "drop-in", "stand-in", "wing", "peer", "term", "control switches"),
    *("UVS objects", "DPF", "DPU", "host", "tenant", "bundle", "selection", "attachment", "to pin", "floor", "mark"),
}
"""Words that pages use in a sense of their own."""

SCREEN = 50
"""Lines."""
SUBRESOURCES = {"appwrappers/finalizers"}
"""Names that look like those of files."""
TOPS = {path.name for folder in (ROOT, APP) for path in folder.iterdir() if not path.name.startswith(".")}

_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
_FENCE = re.compile(r"^```.*?^```\s*?$", re.DOTALL | re.MULTILINE)
_SHELL = re.compile(r"^```(?:sh|console)?\n(.*?)^```\s*?$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_METRIC = re.compile(r"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:\{([^}]*)\})?")
_ENDINGS = ("_bucket", "_sum", "_count")
_KNOWN = {metric.name: metric for metric in catalog()}
_SUBJECTS = {name.partition("_")[0] for name in _KNOWN}
"""The first words of our metrics: by them a name in a text is known for a metric's."""


@cache
def text_of(page: str, root: Path = ROOT) -> str:
    return (root / page).read_text()


@cache
def prose_of(page: str, root: Path = ROOT) -> str:
    """Without the code blocks."""
    return _FENCE.sub("", text_of(page, root))


@cache
def anchors_of(page: str, root: Path = ROOT) -> frozenset[str]:
    """What GitHub makes of the headings: lower case, no punctuation, hyphens; a number from the second of a kind."""
    seen: Counter[str] = Counter()
    found = []
    for heading in _HEADING.findall(prose_of(page, root)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


def broken_links(page: str, root: Path = ROOT) -> list[str]:
    broken = []
    for target in _LINK.findall(_CODE.sub("code", prose_of(page, root))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = ((root / page).parent / place if place else root / page).resolve()
        if not path.exists() or not path.is_relative_to(root):
            broken.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors_of(path.relative_to(root).as_posix(), root):
            broken.append(f"{target}: there is no such heading")
    return broken


def linked(page: str) -> set[str]:
    """The pages that a page leads to; of a folder all of its pages."""
    found = set()
    for target in _LINK.findall(_CODE.sub("code", prose_of(page))):
        place = target.partition("#")[0]
        path = ((ROOT / page).parent / place).resolve()
        if place and not re.match(r"[a-z]+:", target) and path.is_relative_to(ROOT):
            pages = path.glob("*.md") if path.is_dir() else [path]
            found |= {one.relative_to(ROOT).as_posix() for one in pages}
    return found & {*PAGES}


def alerts() -> list[dict[str, object]]:
    groups = yaml.safe_load(text_of(ALERTS))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_resolve(page: str) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """The check itself; links to other sites and those in code are none of its business."""
    (tmp_path / "b.md").write_text("# A `code` heading, twice\n\n# A code heading twice\n")
    good = "[one](b.md#a-code-heading-twice) [two](b.md#a-code-heading-twice-1) [out](https://example.com/x) `[x](y)`"
    (tmp_path / "a.md").write_text(f"[gone](c.md) [no](b.md#nothing)\n{good}\n\n```\n[x](y)\n```\n")
    found = ["c.md: there is no such file", "b.md#nothing: there is no such heading"]
    assert broken_links("a.md", tmp_path) == found


def test_every_page_is_reached_from_the_start_of_the_documentation() -> None:
    reached, ahead = {START}, {START}
    while ahead:
        ahead = {page for one in ahead for page in linked(one)} - reached
        reached |= ahead
    assert {page for page in PAGES if page.startswith("docs/")} <= reached
    assert START in linked("README.md")


def test_the_terms_of_berth_are_explained() -> None:
    explained = {
        word
        for row in re.findall(r"^\| ([^|]+) \|", text_of("docs/glossary.md"), re.MULTILINE)
        for word in row.split(", ")
    }
    assert explained >= TERMS
    assert "docs/glossary.md" in linked("README.md")


def test_every_alert_has_its_section() -> None:
    """And its runbook leads there."""
    assert alerts()
    for rule in alerts():
        anchor = str(rule["alert"]).lower()
        assert anchor in anchors_of(RUNBOOK), rule["alert"]
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOK}#{anchor}"  # type: ignore[index]  # of YAML


def test_no_section_for_an_alert_that_there_is_not() -> None:
    names = {str(rule["alert"]) for rule in alerts()}
    assert {name for name in _HEADING.findall(prose_of(RUNBOOK)) if name.startswith("Berth")} == names


@pytest.mark.parametrize("page", WRITTEN)
def test_metrics_that_pages_name_exist(page: str) -> None:
    """With the labels that they are asked for."""
    for code in _CODE.findall(prose_of(page)):
        match = _METRIC.fullmatch(code)
        if match is None or match[1].partition("_")[0] not in _SUBJECTS:
            continue
        name = match[1]
        if name not in _KNOWN:
            name = next((name.removesuffix(end) for end in _ENDINGS if name.endswith(end)), name)
        assert name in _KNOWN, code
        for matcher in filter(None, (match[2] or "").split(",")):
            assert re.split(r"[=!]", matcher)[0].strip() in _KNOWN[name].labels, code


@pytest.mark.parametrize("page", WRITTEN)
def test_commands_that_pages_give_exist(page: str) -> None:
    """Each `berth …` of a code block or a code span is a command with these flags."""
    known = dict(commands())
    for line in _berth_lines(page):
        words = shlex.split(line.partition(" #")[0])
        path = next((tuple(words[:length]) for length in (3, 2) if tuple(words[:length]) in known), None)
        if path is None:
            # The program itself, or a group of commands.
            assert words[1:2] in ([], ["--help"], ["--version"], ["--install-completion"]) or any(
                group[:2] == tuple(words) for group in known
            ), line
            continue
        command = known[path]
        flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
        given = {word.partition("=")[0] for word in words[1:] if word.startswith("-") and word != "-"}
        assert given <= flags, line


def test_checks_that_pages_name_exist() -> None:
    named = {name for page in WRITTEN for name in re.findall(r"--only ([a-z]+)", text_of(page))}
    assert named
    assert named <= {check.name for check in CHECKS}


def test_every_role_is_in_the_security_model_and_in_the_guide_to_scaling() -> None:
    for page in ("docs/security.md", "docs/scaling.md"):
        for role in BY_NAME:
            assert re.search(rf"^\| {role} \|", text_of(page), re.MULTILINE), (page, role)


def test_what_the_security_model_says_of_the_policy_is_what_the_chart_installs() -> None:
    """The file that it links, the start of the names, and the label of tenants' namespaces; tests/chart tries it."""
    said = text_of("docs/security.md").partition("### Confining the controller")[2].partition("\n## ")[0]
    policy = text_of("charts/berth/templates/controller/confinement.yaml")
    assert "../charts/berth/templates/controller/confinement.yaml" in said
    for text, expression in (("`tenant-…`", "startsWith('tenant-')"), (f"`{TENANT_LABEL}`", f"'{TENANT_LABEL}' in")):
        assert text in said
        assert expression in policy


@pytest.mark.parametrize("page", WRITTEN)
def test_files_and_folders_that_pages_name_exist(page: str) -> None:
    """Those of the project, from its top or from that of the package; not what a page tells its reader to make."""
    for code in _CODE.findall(prose_of(page)):
        if _PATH.fullmatch(code) and code.split("/")[0] in TOPS:
            assert code in SUBRESOURCES or "NAME" in code or (ROOT / code).exists() or (APP / code).exists(), code


def test_the_architecture_is_three_screens_and_names_files_that_exist() -> None:
    """In its flows too, where a word before an arrow may be a module without its ending."""
    page = text_of("docs/architecture.md")
    assert page.count("\n") <= 3 * SCREEN
    named = re.findall(r"[\w*]+(?:/\w+)*(?:\.py|/(?=[\s`]))", "\n".join(_FENCE.findall(page) + _CODE.findall(page)))
    assert len(named) > 30
    for name in named:
        assert list(APP.glob(name)) or list(ROOT.glob(name)), name
    steps = re.findall(
        r"[a-z]+/[a-z_]+(?=[ :])(?!/)", "\n".join(block for block in _FENCE.findall(page) if "─►" in block)
    )
    assert len(steps) > 5
    for step in steps:
        assert list(APP.glob(f"*/{step}.py")), step


def _berth_lines(page: str) -> list[str]:
    """Command lines, those that go on after a backslash as one."""
    lines = [line for block in _SHELL.findall(text_of(page)) for line in block.replace("\\\n", " ").splitlines()]
    stripped = [re.sub(r"^(\$ |\.venv/bin/)+", "", line.strip()) for line in lines]
    spans = [code for code in _CODE.findall(prose_of(page)) if not re.search(r"[<>|…\[]", code)]
    return [line for line in (*stripped, *spans) if re.match(r"berth( |$)", line) and "|" not in line]
