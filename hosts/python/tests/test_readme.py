"""Every example of the README runs as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[3] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_a_python_example_runs(
    code: str, engines: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{engines('redis70').port}/0")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engines("dynamodb").endpoint)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout and not result.stderr


def commands() -> list[str]:
    first, *rest = blocks("sh")
    # The package is installed already, and the tests are running.
    installed = first.splitlines()[0].split(" && ")[1]
    return [installed, *(line for block in rest for line in block.splitlines())]


def test_the_commands_run(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path),
    }
    environment.pop("TENURE_STORE", None)
    output = ""
    for command in commands():
        result = subprocess.run(
            ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert result.returncode == 0, (command, result.stderr)
        output += result.stdout
    for expected in ("charged", "one at a time", "once per tick", "free"):
        assert expected in output
    assert re.search(r"fence \d+", output)


def test_the_readme_shows_python_and_commands() -> None:
    assert len(blocks("python")) >= 3
    assert len(commands()) >= 5
