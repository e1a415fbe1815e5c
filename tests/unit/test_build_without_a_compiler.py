"""What an installation says on a machine that cannot compile: one sentence with what to install."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.tidy.project_files import ROOT

pytest.importorskip("setuptools", reason="the build tools are in the development group")
pytest.importorskip("Cython", reason="the build tools are in the development group")

WITHOUT_HEADERS = (
    "import distutils.sysconfig, runpy, setuptools;"
    "distutils.sysconfig.get_python_inc = lambda *_, **__: '/nonexistent';"
    "runpy.run_path('setup.py')"
)


def build(tmp_path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run *command* with the arguments of a build into *tmp_path*."""
    arguments = ["build_ext", "--build-temp", tmp_path / "temp", "--build-lib", tmp_path / "lib"]
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("environment", [{"CC": "/nonexistent/cc"}, {"PATH": "/nonexistent"}])
def test_without_a_compiler_the_last_line_says_what_to_install(tmp_path, environment):
    result = build(tmp_path, "setup.py", **environment)

    last = result.stderr.splitlines()[-1]
    assert result.returncode != 0
    assert last.startswith("error: segstore needs a C compiler")
    assert "apt-get install gcc python3-dev" in last
    assert not (tmp_path / "temp").exists()


def test_without_the_headers_of_python_the_last_line_says_what_to_install(tmp_path):
    result = build(tmp_path, "-c", WITHOUT_HEADERS)

    last = result.stderr.splitlines()[-1]
    assert result.returncode != 0
    assert last.startswith("error: segstore needs Python.h")
    assert "apt-get install gcc python3-dev" in last
