"""The wheel for Python: what is in it, that it is the same each time, and that it works where it alone is installed."""

import base64
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from installed_files import SOURCE, VERSION, run

sys.path.insert(0, str(SOURCE / "python"))
platform_wheel = importlib.import_module("platform_wheel")

COMPILED = {name: Path(os.environ[name.upper()]) for name in ("command", "library", "planning_library", "simulated_nvml")}
NAME = f"lowgear-{VERSION}"
MOST_BYTES = 19_000_000
# Those of the C library. Everything else has to be inside.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2",
                    "ld-linux-aarch64.so.1"}


def build(folder):
    return folder / platform_wheel.build(folder, **COMPILED, notices={"Lowgear": SOURCE / "LICENSE"})


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="lowgear-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.wheel = build(cls.folder / "out")
        cls.tree = cls.folder / "tree"
        with zipfile.ZipFile(cls.wheel) as archive:
            cls.entries = archive.infolist()
            archive.extractall(cls.tree)

    def test_it_holds_the_package_the_command_and_the_libraries(self):
        modules = {path.relative_to(SOURCE / "python").as_posix() for path in (SOURCE / "python/lowgear").rglob("*")
                   if path.is_file() and "__pycache__" not in path.parts}
        described = {f"{NAME}.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD", "licenses/Lowgear")}
        compiled = {"lowgear/liblowgear.so.1", "lowgear/liblowgear_planning.so", "lowgear/simgpu/libnvidia-ml.so.1",
                    f"{NAME}.data/scripts/lowgear"}
        names = {entry.filename for entry in self.entries}
        self.assertEqual(names - {f"{NAME}.dist-info/entry_points.txt"}, modules | described | compiled)
        self.assertLess(self.wheel.stat().st_size, MOST_BYTES)
        executable = {entry.filename for entry in self.entries if entry.external_attr >> 16 & 0o111}
        self.assertEqual(executable, {f"{NAME}.data/scripts/lowgear"})

    def test_its_record_is_right(self):
        rows = (self.tree / f"{NAME}.dist-info/RECORD").read_text().splitlines()
        self.assertEqual([row.split(",")[0] for row in rows], [entry.filename for entry in self.entries])
        for row in rows[:-1]:
            file, digest, size = row.split(",")
            content = (self.tree / file).read_bytes()
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))))

    def test_the_same_files_give_the_same_wheel(self):
        self.assertEqual(build(self.folder / "again").read_bytes(), self.wheel.read_bytes())

    def test_its_tag_says_what_it_runs_on(self):
        self.assertRegex(self.wheel.name, rf"^{NAME}-py3-none-manylinux_2_31_(x86_64|aarch64)\.whl$")
        described = (self.tree / f"{NAME}.dist-info/WHEEL").read_text()
        self.assertIn(f"Tag: {self.wheel.stem[len(NAME) + 1:]}\n", described)
        self.assertIn("Root-Is-Purelib: false\n", described)

    def test_versions_are_read_as_readelf_reads_them(self):
        for path in [*COMPILED.values(), Path(os.environ["SHARED_COMMAND"])]:
            with self.subTest(path.name):
                said = run(os.environ["READELF"], "--version-info", "--wide", path).stdout.partition("Version needs")[2]
                expected = re.findall(r"Name: (\S+)", said)
                self.assertTrue(expected)
                self.assertEqual(sorted(platform_wheel._needed_versions(path.read_bytes())), sorted(expected))

    def test_it_needs_the_c_library_alone(self):
        for path in COMPILED.values():
            dynamic = run(os.environ["READELF"], "--dynamic", path).stdout
            needed = set(re.findall(r"Shared library: \[(.+)\]", dynamic))
            self.assertLessEqual(needed, SYSTEM_LIBRARIES, path)
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")

    def test_what_does_not_run_everywhere_is_refused(self):
        shared = Path(os.environ["SHARED_COMMAND"])
        with self.assertRaisesRegex(platform_wheel.NotALibrary, "needs (GCC|GLIBCXX|CXXABI)_"):
            platform_wheel.build(self.folder / "no", **{**COMPILED, "command": shared}, notices={})
        with self.assertRaisesRegex(platform_wheel.NotALibrary, "no 64-bit program"):
            platform_wheel.build(self.folder / "no", **{**COMPILED, "library": SOURCE / "LICENSE"}, notices={})
        self.assertFalse((self.folder / "no").exists())


class Installed(unittest.TestCase):
    """The wheel in a virtual environment of its own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="lowgear-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        made = subprocess.run([sys.executable, "-m", "venv", str(cls.folder / "venv")], capture_output=True, check=False)
        if made.returncode != 0:
            raise unittest.SkipTest("SKIPPED: this Python makes no virtual environments (Debian: python3-venv)")
        cls.bin = cls.folder / "venv/bin"
        cls.pip("install", "--no-index", build(cls.folder))

    @classmethod
    def pip(cls, *words):
        return run(cls.bin / "python", "-m", "pip", *words, environment={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})

    def python(self, script):
        # Neither the command nor the library of this machine may help.
        return run(self.bin / "python", "-c", script, environment={"PATH": "/nowhere"}).stdout

    def test_the_command_runs(self):
        self.assertEqual(run(self.bin / "lowgear", "--version").stdout, f"lowgear {VERSION}\n")
        example = self.folder / "example"
        run(self.bin / "lowgear", "example", "--out", example)
        run(self.bin / "lowgear", "plan", "--profile", example / "profile.csv", "--microbatches", "4",
            "--blocking-power", "75", "--plans", "2", "--out", example / "plan")
        self.assertIn("verified", run(self.bin / "lowgear", "verify", example / "plan").stdout)
        refused = run(self.bin / "lowgear", "plan", "--profile", "nothing.csv", "--microbatches", "4",
                      "--blocking-power", "75", "--out", example / "no", check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("nothing.csv: cannot be read", refused.stderr)

    def test_it_says_what_it_does_without(self):
        model = self.folder / "tokenizer.model"
        model.write_bytes(b"\x0a\x05")
        text = self.folder / "text.txt"
        text.write_text("a")
        refused = run(self.bin / "lowgear", "data", "tokenize", "--tokenizer", model, "--out", self.folder / "out.bin", text,
                      check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("built without SentencePiece", refused.stderr)

    def test_python_plans_with_the_library_that_came_with_it(self):
        planned = self.python(
            "import lowgear; rows = [dict(stage=0, instruction=kind, clock_mhz=1000, time_s=1, energy_j=100)"
            " for kind in ('forward', 'backward')]; r = lowgear.plan(rows, microbatches=2, blocking_power_w=50);"
            " print(bool(lowgear.verify(r)), r.shown_plan.energy_j)")
        self.assertEqual(planned, "True 400.0\n")

    def test_python_finds_the_library_that_came_with_it(self):
        self.assertEqual(self.python("import lowgear; c = lowgear.Client(); print(c.status().rank); c.close()"), "0\n")

    def test_doctor_looks_at_the_frameworks_of_the_environment(self):
        said = run(self.bin / "lowgear", "doctor", "--json", "--python", self.bin / "python", check=False,
                   environment={"LOWGEAR_LIBRARY": ""}).stdout
        report = json.loads(said)["python"]["report"]
        package = next((self.folder / "venv").resolve().rglob("liblowgear.so.1")).parent
        self.assertEqual((report["hook"], report["importable"], report["library"]["path"]),
                         (True, str(package), str(package / "liblowgear.so.1")))
        self.assertIn("Megatron Core", [framework["name"] for framework in report["frameworks"]])

    def test_the_simulated_gpus_work_from_there(self):
        state = self.folder / "machine"
        run(self.bin / "lowgear", "simgpu", "create", "--state", state, "--gpus", "2xH100", "--any-user")
        nvml = next((self.folder / "venv").rglob("libnvidia-ml.so.1"))
        said = run(self.bin / "lowgear", "doctor", check=False,
                   environment={"LOWGEAR_NVML": str(nvml), "LOWGEAR_SIMGPU": str(state)}).stdout
        self.assertIn("H100", said)


if __name__ == "__main__":
    unittest.main()
