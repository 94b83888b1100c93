"""The wheel installs into an empty environment and answers there."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, polyhop
corpus = [
    polyhop.Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
    polyhop.Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
]
answer = polyhop.ask("Where was the director of Alien born?", corpus=corpus)
print(json.dumps([polyhop.__file__, answer.text]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is made of it, as `python -m build` leaves them."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-W", "error::SyntaxWarning", "-m", "build", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr
    return folder


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = {str(path.relative_to(ROOT / "src")) for path in tracked("src/polyhop")}
    assert source <= names
    assert "polyhop/py.typed" in names
    assert not [name for name in names if not name.startswith("polyhop")]


@pytest.mark.slow
def test_the_sdist_holds_what_is_needed_to_test_it(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "README.md", "LICENSE", "tests/conftest.py", "src/polyhop/py.typed"} <= names


@pytest.mark.slow
def test_it_answers_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    # The dependencies of this environment; an editable polyhop in it is not found from there.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    done = subprocess.run([python, "-I", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, answer = json.loads(done.stdout)
    assert Path(file).is_relative_to(site)
    assert answer == "South Shields"


def tracked(folder: str) -> list[Path]:
    """The files below a folder of the repository, without what Python or an editor leaves there."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [path for path in found if "__pycache__" not in path.parts and not path.name.startswith(".")]
