"""How the package is built and installed: by pip where there is one, and by its build backend alone."""

import base64
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import lowgear

SOURCE = Path(__file__).resolve().parent.parent
MODULES = {
    path.relative_to(SOURCE).as_posix()
    for path in (SOURCE / "lowgear").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


def backend():
    spec = importlib.util.spec_from_file_location("build_backend", SOURCE / "build_backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source_files():
    return set(SOURCE.rglob("*"))


class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.before = source_files()

    def tearDown(self):
        self.assertEqual(source_files(), self.before, "building has written into the source")

    def imported(self, path):
        """The version that a package at `path` says."""
        script = "import lowgear; print(lowgear.__version__, lowgear.__file__)"
        run = subprocess.run([sys.executable, "-c", script], cwd=self.folder, capture_output=True, text=True, check=True,
                             env={"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"})
        version, file = run.stdout.split()
        self.assertTrue(file.startswith(str(path)), file)
        return version

    def test_a_wheel_holds_the_modules_and_what_describes_them(self):
        name = backend().build_wheel(self.folder)
        self.assertEqual(name, f"lowgear-{lowgear.__version__}-py3-none-any.whl")
        info = f"lowgear-{lowgear.__version__}.dist-info"
        with zipfile.ZipFile(self.folder / name) as wheel:
            self.assertEqual(set(wheel.namelist()),
                             MODULES | {f"{info}/{file}" for file in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")})
            self.assertEqual(wheel.read(f"{info}/entry_points.txt").decode(),
                             "[torch.backends]\nlowgear = lowgear.adapters.core:activate\n")
            for row in wheel.read(f"{info}/RECORD").decode().splitlines():
                file, digest, size = row.split(",")
                if file.endswith("RECORD"):
                    continue
                content = wheel.read(file)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))))
            wheel.extractall(self.folder / "site")
        self.assertEqual(self.imported(self.folder / "site"), lowgear.__version__)

    def test_a_source_package_builds_the_same_wheel(self):
        wheel = backend().build_wheel(self.folder)
        with tarfile.open(self.folder / backend().build_sdist(self.folder)) as archive:
            archive.extractall(self.folder / "sdist")
        unpacked = self.folder / "sdist" / f"lowgear-{lowgear.__version__}"
        script = f"import build_backend; build_backend.build_wheel({str(self.folder / 'sdist')!r})"
        subprocess.run([sys.executable, "-c", script], cwd=unpacked, check=True, env={"PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((self.folder / "sdist" / wheel).read_bytes(), (self.folder / wheel).read_bytes())

    def test_an_editable_one_leads_here(self):
        with zipfile.ZipFile(self.folder / backend().build_editable(self.folder)) as wheel:
            self.assertEqual(wheel.read("lowgear.pth").decode().strip(), str(SOURCE))

    def test_the_version_is_that_of_the_project(self):
        text = (SOURCE / "pyproject.toml").read_text()
        self.assertEqual(re.search(r'^version = "(.*)"$', text, re.MULTILINE).group(1), lowgear.__version__)
        if os.environ.get("LOWGEAR_VERSION"):
            self.assertEqual(os.environ["LOWGEAR_VERSION"], lowgear.__version__)

    def test_pip_leaves_the_source_as_it_is(self):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("SKIPPED: this Python has no pip (Debian: python3-pip)")
        environment = {**os.environ, "HOME": str(self.folder),
                       "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        run = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target",
                              str(self.folder / "site"), str(SOURCE)],
                             capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(self.imported(self.folder / "site"), lowgear.__version__)


if __name__ == "__main__":
    unittest.main()
