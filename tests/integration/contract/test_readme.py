"""What the README shows is what happens."""

from __future__ import annotations

import base64
import json
import re
import shlex
import ssl
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer.main
import yaml

from app.cli.main import cli
from tests.support.paths import ROOT
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.waiting import PATIENCE

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def command(start: str) -> list[str]:
    """The words of the command in the README that begins like this."""
    for block in blocks(""):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(start):
                return shlex.split(line)
    raise AssertionError(f"the README has no command {start!r}")


def berth(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "app", *arguments]


def test_the_review_by_curl_gets_the_answer_that_is_shown(tmp_path: Path) -> None:
    make = command("berth certs make")[1:]
    serve = command("berth webhook")[1:]
    curl = command("curl --silent")
    certs = str(tmp_path / "certs")
    subprocess.run(berth(*_moved(make, certs)), check=True)
    port = lasting_port()
    process = Background(
        [*berth(*_moved(serve, certs)), f"--port={port}", f"--health-check-port={lasting_port()}", "--drain-seconds=0"],
        directory=ROOT,
    )
    try:
        process.wait_for('"msg":"ready"')
        context = ssl.create_default_context(cafile=str(Path(certs) / "ca.crt"))
        body = (ROOT / curl[curl.index("--data") + 1].removeprefix("@")).read_bytes()
        url = curl[-1].replace(":8443", f":{port}")
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as found:
            answer = json.load(found)
    finally:
        process.stop()
    shown, shown_patch = (json.loads(block) for block in blocks("json")[:2])
    assert json.loads(base64.b64decode(answer["response"]["patch"])) == shown_patch
    assert answer["response"]["patch"].startswith(shown["response"]["patch"].rstrip("…"))
    assert answer | {"response": answer["response"] | {"patch": ""}} == shown | {
        "response": shown["response"] | {"patch": ""}
    }


def explained(*flags: str) -> str:
    done = subprocess.run(
        berth(*command("berth explain")[1:], *flags), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_explanation_names_what_the_diff_shows() -> None:
    text = explained()
    assert 'resources.limits[example.com/foo]: "2"' in text
    assert "podnetinfo" in text


def test_the_diff_of_the_first_screen_is_what_berth_does() -> None:
    """Without the lines with `+`, it is the Pod of the example; with them, the injected one."""
    (diff,) = blocks("diff")
    lines = diff.splitlines()
    assert {line[0] for line in lines} == {" ", "+"}
    before = yaml.safe_load("\n".join(line[1:] for line in lines if line[0] == " "))
    after = yaml.safe_load("\n".join(line[1:] for line in lines))
    assert before == yaml.safe_load((ROOT / "examples/webhook-demo.yaml").read_text())
    injected = yaml.safe_load(explained("-o", "pod"))
    assert injected["metadata"].pop("namespace") == "default"
    assert after == injected


def _moved(words: list[str], certs: str) -> list[str]:
    """The same words, with the folder `certs` elsewhere, so that the test leaves no trace."""
    return [re.sub(r"^certs(?=/|$)", certs, word) if number else word for number, word in enumerate(words)]


def test_every_command_of_the_installation_is_one_with_its_flags() -> None:
    """From nothing to a running system with what is there."""
    commands: Any = typer.main.get_command(cli)
    install = README.partition("\n## Install")[2].partition("\n## ")[0]
    lines = re.findall(r"^berth (.+)$", install.replace("\\\n", " "), re.MULTILINE)
    typed = [shlex.split(line.partition(" | ")[0]) for line in lines]
    assert {words[0] for words in typed} == {"crds", "tenant", "certs", "gateway", "controller", "webhook", "agent"}
    for words in typed:
        command = commands.commands[words[0]]
        if hasattr(command, "commands"):
            command = command.commands[words[1]]
        known = {name for param in command.params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_files_that_a_role_takes_are_those_that_a_line_before_has_written() -> None:
    """Without Helm: `berth tenant authority`, `tenant add` and `certs make` write the files of gateway, agent and webhook."""
    install = README.partition("\n### Without Helm")[2].partition("\n## ")[0].replace("\\\n", " ")
    written: set[str] = set()
    for line in re.findall(r"^berth .+$", install, re.MULTILINE):
        words = shlex.split(line)
        flags = dict(pairwise(words))
        folders = {"tenant": "--out", "certs": "--dir"}
        if directory := flags.get(folders.get(words[1], "")):
            below = ("gateway/", "admin/") if words[2] == "authority" else ("",)
            written |= {f"{directory}/{part}{name}" for part in below for name in ("ca.crt", "tls.crt", "tls.key")}
        taken = {flags[flag] for flag in flags if flag.endswith(("-file", "-ca"))}
        assert taken <= written, line


def test_the_table_has_every_command() -> None:
    commands: Any = typer.main.get_command(cli)
    table = README.partition("\n## Commands")[2]
    assert set(re.findall(r"^\| `berth ([a-z-]+)", table, re.MULTILINE)) == set(commands.commands)


def test_every_file_and_target_that_is_named_exists() -> None:
    for path in re.findall(r"\]\(((?!http)[^)#]+)\)", README):
        found = ROOT / path
        assert found.is_dir() or found.stat().st_size > 0, path
    for target in re.findall(r"`make (\w+)`", README):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for path in re.findall(r"examples/[\w./-]+", README):
        assert (ROOT / path).exists(), path


def test_making_the_environment_shows_progress() -> None:
    """The first `make` takes a minute or more."""
    for target, locks in (("demo", ["requirements.lock"]), ("unit", ["requirements.lock", "requirements-dev.lock"])):
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
        )
        lines = [line for line in done.stdout.splitlines() if "pip install" in line and "-r " in line]
        assert len(lines) == len(locks)
        for line, lock in zip(lines, locks, strict=True):
            assert lock in line.split()
            assert "--quiet" not in line


def test_the_demo_needs_nothing_that_develops_berth() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "requirements-dev.lock" not in done.stdout


def test_the_examples_are_those_of_the_demo() -> None:
    demo = ROOT / "app/devtools/demo/manifests"
    attachment = (ROOT / "examples/attachments/foo-network.yaml").read_text()
    assert attachment == (demo / "attachment.yaml").read_text()
    pod = yaml.safe_load((ROOT / "examples/webhook-demo.yaml").read_text())
    played = yaml.safe_load((demo / "pod.yaml").read_text())
    del played["spec"]["containers"][0]["resources"]
    assert pod == played


def test_the_walk_through_is_that_of_the_demo() -> None:
    """Who types what the examples hold does what the demo plays."""
    for path in sorted((ROOT / "examples/workload-api").iterdir()):
        assert path.read_text() == (ROOT / "app/devtools/demo/manifests" / path.name).read_text(), path.name


def test_make_leaves_an_environment_alone_that_is_linked(tmp_path: Path) -> None:
    """Another work tree's environment would be cleared through the link."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").touch()
    (tmp_path / "venv").symlink_to(other)
    made = subprocess.run(
        ["make", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", str(tmp_path / "venv" / ".runs")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert "venv is a link" in made.stderr
    assert (other / "kept").exists()
