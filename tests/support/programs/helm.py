"""The `helm` of machines that have none: the commands that our pages name, over the Helm engine itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import helm_python
import yaml


def main() -> int:
    parser = argparse.ArgumentParser(prog="helm")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("install", "upgrade", "template"):
        one = commands.add_parser(name)
        one.add_argument("release")
        one.add_argument("chart")
        one.add_argument("-f", "--values", action="append", default=[])
        one.add_argument("--set", action="append", default=[])
        one.add_argument("--create-namespace", action="store_true")
        one.add_argument("--install", action="store_true")
        one.add_argument("--reuse-values", action="store_true")
        one.add_argument("--reset-then-reuse-values", action="store_true")
        _common(one)
    for name in ("uninstall", "rollback"):
        one = commands.add_parser(name)
        one.add_argument("release")
        one.add_argument("revision", nargs="?", type=int, default=0)
        _common(one)
    history = commands.add_parser("history")
    history.add_argument("release")
    get = commands.add_parser("get")
    get.add_argument("what", choices=["values"])
    get.add_argument("release")
    for one in (history, get):
        _common(one)
    given = parser.parse_args()
    try:
        return _run(given)
    except helm_python.HelmError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="default")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--timeout", default="300s")  # as Helm itself


def _run(given: argparse.Namespace) -> int:
    if given.command == "template":
        with helm_python.Chart.load(given.chart) as chart:
            for text in chart.render(_values(given), name=given.release, namespace=given.namespace).values():
                print(f"---\n{text}")
        return 0
    patience = int(given.timeout.removesuffix("s"))
    waiting: dict[str, Any] = {"timeout": patience} | ({"wait": "watcher"} if given.wait else {})
    with helm_python.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=given.namespace) as engine:
        match given.command:
            case "uninstall":
                engine.uninstall(given.release, **waiting)
                print(f'release "{given.release}" uninstalled')
                return 0
            case "rollback":
                engine.rollback(given.release, version=given.revision, **waiting)
                print("Rollback was a success! Happy Helming!")
                return 0
            case "history":
                for one in engine.history(given.release):
                    print(f"{one['revision']}\t{one['status']}")
                return 0
            case "get":
                print(yaml.safe_dump(dict(engine.get_values(given.release))))
                return 0
            case "upgrade" if not given.install or any(one["name"] == given.release for one in engine.list()):
                values: dict[str, Any] = {}
                if given.reset_then_reuse_values:
                    values = dict(engine.get_values(given.release) or {})
                _merge(values, _values(given))
                found = engine.upgrade(given.chart, given.release, values, reuse_values=given.reuse_values, **waiting)
            case _:
                found = engine.install(
                    given.chart, given.release, _values(given), create_namespace=given.create_namespace, **waiting
                )
    print(f"NAME: {given.release}\nSTATUS: {found['status']}\nREVISION: {found['revision']}")
    return 0


def _values(given: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in given.values:
        _merge(found, yaml.safe_load(Path(path).read_text()) or {})
    for text in given.set:
        _merge(found, helm_python.parse_set_string(text))
    return found


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


if __name__ == "__main__":
    sys.exit(main())
