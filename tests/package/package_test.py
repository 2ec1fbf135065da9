"""What each component installs, that it works from there, and the Debian packages: nothing of it needs root."""

import configparser
import functools
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

BUILD, SOURCE, PREFIX = (Path(os.environ[name]) for name in ("BUILD", "SOURCE", "PREFIX"))
LIBDIR, VERSION = os.environ["LIBDIR"], os.environ["VERSION"]
PATIENCE_S = 60
PACKAGES = {
    "lowgear": "lowgear",
    "trainer": "lowgear-trainer",
    "simgpu": "lowgear-simgpu",
    "library": "liblowgear1",
    "development": "liblowgear-dev",
    "python": "python3-lowgear",
}
TRAINING = """
model: {vocabulary: 256, hidden: 32, layers: 2, heads: 4, kv_heads: 2, intermediate: 64, max_positions: 64}
data: {synthetic_tokens: 10000, sequence_length: 32}
microbatches: 2
microbatch_size: 2
steps: 1
"""


def run(*words, environment=None, check=True):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LOWGEAR_", "PYTHONPATH"))}
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE_S,
                            env=clean | {"OMP_NUM_THREADS": "1"} | (environment or {}))
    if check and result.returncode != 0:
        raise AssertionError(f"{words} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result


def under(root, path):
    """Where a path of the installed system lies in a tree that stands for its root."""
    return root / str(path).lstrip("/")


def files_of(tree):
    return {"/" + str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()}


def verbs():
    text = run(BUILD / "bin" / "lowgear", "--help").stdout
    return re.findall(r"^  ([a-z]+)  ", text.partition("Subcommands:")[2], re.MULTILINE)


def expected_files():
    share, lib = PREFIX / "share", PREFIX / LIBDIR
    zsh = "vendor-completions" if PREFIX == Path("/usr") else "site-functions"
    data = [path.relative_to(SOURCE) for path in (SOURCE / "data").rglob("*") if path.is_file()]
    lowgear = [PREFIX / "bin/lowgear", Path("/etc/lowgear/agent.toml"), Path("/etc/lowgear/server.toml")]
    lowgear += [PREFIX / f"lib/systemd/system/lowgear-{name}.service" for name in ("agent", "server")]
    lowgear += [PREFIX / "lib/sysusers.d/lowgear-server.conf"]
    lowgear += [share / "man/man1/lowgear.1.gz"] + [share / f"man/man1/lowgear-{verb}.1.gz" for verb in verbs()]
    lowgear += [share / "bash-completion/completions/lowgear", share / f"zsh/{zsh}/_lowgear"]
    lowgear += [share / "lowgear/prometheus" / path.name for path in (SOURCE / "deploy/prometheus").iterdir()]
    lowgear += [share / "lowgear" / path for path in data]
    lowgear += [share / "doc/lowgear" / path.name for path in (SOURCE / "docs").glob("*.md")]
    python = (SOURCE / "python/lowgear").glob("*.py")
    files = {
        "lowgear": lowgear,
        "trainer": [PREFIX / "bin/lowgear-trainer", PREFIX / "bin/lowgear-sampler",
                    share / "lowgear/examples/llama-4-stages.yaml"],
        "simgpu": [lib / "lowgear/simgpu/libnvidia-ml.so.1", PREFIX / "include/lowgear_simgpu.h"],
        "library": [lib / "liblowgear.so.1", lib / "liblowgear.so.1.0.0"],
        "development": [lib / "liblowgear.so", PREFIX / "include/lowgear.h"],
        "python": [PREFIX / "lib/python3/dist-packages/lowgear" / path.name for path in python],
    }
    for component, package in PACKAGES.items():
        files[component] += [share / "doc" / package / name for name in ("copyright", "changelog.gz")]
    return {component: {str(path) for path in paths} for component, paths in files.items()}


class Installed(unittest.TestCase):
    """Each component in a tree of its own, and all of them in one."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="lowgear-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.root = cls.folder / "root"
        cls.trees = {component: cls.folder / component for component in PACKAGES}
        for component, tree in cls.trees.items():
            for destination in (tree, cls.root):
                run(os.environ["CMAKE"], "--install", BUILD, "--component", component, "--strip",
                    environment={"DESTDIR": str(destination)})
        cls.bin = under(cls.root, PREFIX / "bin")
        cls.lib = under(cls.root, PREFIX / LIBDIR)
        cls.simulated_nvml = cls.lib / "lowgear" / "simgpu" / "libnvidia-ml.so.1"

    def setUp(self):
        self.work = Path(tempfile.mkdtemp(dir=self.folder))

    def lowgear(self, *words, environment=None, check=True):
        return run(self.bin / "lowgear", *words, environment=environment, check=check)

    def elf_files(self):
        return [path for path in self.root.rglob("*")
                if path.is_file() and not path.is_symlink() and path.read_bytes().startswith(b"\x7fELF")]

    def test_components_install_these_files_and_no_others(self):
        self.maxDiff = None
        for component, expected in expected_files().items():
            with self.subTest(component):
                self.assertEqual(files_of(self.trees[component]), expected)

    def test_a_whole_installation_leaves_configurations_alone(self):
        tree = self.folder / "whole"
        run(os.environ["CMAKE"], "--install", BUILD, environment={"DESTDIR": str(tree)})
        files = files_of(tree)
        self.assertIn(str(PREFIX / "bin/lowgear"), files)
        self.assertEqual([path for path in files if not path.startswith(f"{PREFIX}/")], [])
        self.assertEqual(files - set.union(*expected_files().values()), set())

    def test_programs_and_libraries_name_no_folder_of_the_build(self):
        files = self.elf_files()
        self.assertEqual(len(files), 5)
        for path in files:
            with self.subTest(path.name):
                self.assertNotRegex(run(os.environ["READELF"], "--dynamic", path).stdout, r"\((RPATH|RUNPATH)\)")

    def test_the_simulated_nvml_is_where_no_loader_looks(self):
        found = [path for path in self.root.rglob("*libnvidia-ml*")]
        self.assertEqual(found, [self.simulated_nvml])
        self.assertEqual([tree for tree in self.trees.values() if list(tree.rglob("*libnvidia-ml*"))],
                         [self.trees["simgpu"]])
        # The folders of this machine's loader: no one of its configuration is that of the simulation.
        folder = str(PREFIX / LIBDIR / "lowgear/simgpu")
        for file in (Path("/etc/ld.so.conf"), *Path("/etc/ld.so.conf.d").glob("*")):
            if file.exists():
                self.assertNotIn(folder, file.read_text())

    def unit(self, name):
        unit = configparser.RawConfigParser(strict=False, delimiters="=")
        unit.optionxform = str
        unit.read(under(self.root, PREFIX / f"lib/systemd/system/lowgear-{name}.service"))
        return unit

    def test_units_start_the_program_that_is_installed_on_the_configuration_that_is(self):
        for name, verb in (("agent", "agent"), ("server", "serve")):
            with self.subTest(name):
                unit = self.unit(name)
                config = f"/etc/lowgear/{name}.toml"
                self.assertEqual(unit["Service"]["ExecStart"], f"{PREFIX}/bin/lowgear {verb} --config {config}")
                self.assertEqual(unit["Unit"]["ConditionPathExists"], config)
                self.assertTrue(under(self.root, config).is_file())
                for key in ("ExecStart", "ExecStopPost"):
                    program = unit["Service"].get(key, f"{PREFIX}/bin/lowgear").split()[0]
                    self.assertTrue(os.access(under(self.root, program), os.X_OK), program)

    def test_units_make_the_folders_that_the_configurations_name(self):
        agent = tomllib.loads(under(self.root, "/etc/lowgear/agent.toml").read_text())
        unit = self.unit("agent")["Service"]
        self.assertEqual(agent["journal"], "/var/lib/" + unit["StateDirectory"])
        self.assertIn(f"--journal {agent['journal']}", unit["ExecStopPost"])
        for socket in ("lease_socket", "http_socket"):
            self.assertEqual(os.path.dirname(agent["sockets"][socket]), "/run/" + unit["RuntimeDirectory"])
        server = tomllib.loads(under(self.root, "/etc/lowgear/server.toml").read_text())
        unit = self.unit("server")["Service"]
        self.assertEqual(server["state"], "/var/lib/" + unit["StateDirectory"])
        self.assertEqual(os.path.dirname(server["listen"]["unix"]), "/run/" + unit["RuntimeDirectory"])

    def test_the_user_of_the_server_is_declared(self):
        declared = under(self.root, PREFIX / "lib/sysusers.d/lowgear-server.conf").read_text()
        self.assertRegex(declared, rf"(?m)^u {self.unit('server')['Service']['User']} ")

    def test_nothing_is_enabled(self):
        self.assertEqual([path for path in files_of(self.root) if ".wants/" in path or "-preset/" in path], [])

    def test_the_program_accepts_the_configurations(self):
        for words in (("agent", "check", "--config"), ("serve", "--check", "--config")):
            name = "agent" if words[0] == "agent" else "server"
            # A folder of this user's own stands for /etc.
            self.lowgear(*words, under(self.root, f"/etc/lowgear/{name}.toml"))

    def test_the_program_runs(self):
        self.assertEqual(self.lowgear("--version").stdout, f"lowgear {VERSION}\n")
        self.lowgear("example", "--out", self.work / "example")
        self.lowgear("estimate", "--model", "llama-3-70b", "--gpu", "h100-sxm", "--gpus", "64", "--tp", "8", "--pp", "4",
                     "--global-batch", "512", "--seq", "8192")

    def test_training_finds_the_program_of_its_ranks(self):
        config = self.work / "train.yaml"
        config.write_text(TRAINING)
        self.lowgear("train", config)

    def test_training_without_the_program_of_its_ranks_says_what_is_missing(self):
        config = self.work / "train.yaml"
        config.write_text(TRAINING)
        alone = under(self.trees["lowgear"], PREFIX / "bin" / "lowgear")
        result = run(alone, "train", config, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("install the package lowgear-trainer", result.stderr)

    def test_the_simulation_works_from_there(self):
        state = self.work / "machine"
        self.lowgear("simgpu", "create", "--state", state, "--gpus", "2xH100", "--any-user")
        result = self.lowgear("doctor", check=False,
                              environment={"LOWGEAR_NVML": str(self.simulated_nvml), "LOWGEAR_SIMGPU": str(state)})
        self.assertIn("H100", result.stdout)

    def test_python_finds_the_package_and_the_library(self):
        modules = under(self.root, PREFIX / "lib/python3/dist-packages")
        script = "import lowgear; client = lowgear.Client(); print(client.status()); client.close()"
        run("python3", "-c", script, environment={"PYTHONPATH": str(modules), "LD_LIBRARY_PATH": str(self.lib)})

    def test_the_library_that_programs_are_linked_with_is_the_one_that_they_load(self):
        self.assertEqual((self.lib / "liblowgear.so").resolve(), (self.lib / "liblowgear.so.1.0.0").resolve())
        self.assertIn("[liblowgear.so.1]", run(os.environ["READELF"], "--dynamic", self.lib / "liblowgear.so").stdout)

    def test_notices_of_what_is_compiled_in_are_there(self):
        # An empty line is a lone dot in Debian's format.
        notices = " ".join(re.sub(r"(?m)^ \.$", "", (SOURCE / "deploy/debian/copyright").read_text()).split())
        d3 = " ".join((SOURCE / "src/report/page/d3_license.txt").read_text().split())
        self.assertIn(d3[d3.index("Redistribution and use"):], notices)
        self.assertIn("Michael Bostock", notices)

    def test_python_has_the_version_of_the_project(self):
        self.assertEqual(tomllib.loads((SOURCE / "python/pyproject.toml").read_text())["project"]["version"], VERSION)


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("file"),
                     "no Debian packages are made: dpkg-shlibdeps or file is missing (packages dpkg-dev and file)")
class DebianPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="lowgear-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run(os.environ["CPACK"], "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder)
        cls.debs = {run("dpkg-deb", "--field", deb, "Package").stdout.strip(): deb for deb in cls.folder.glob("*.deb")}

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.debs[package], name).stdout.strip()

    @functools.cache
    def control(self, package):
        folder = self.folder / package
        run("dpkg-deb", "--control", self.debs[package], folder)
        return folder

    def test_there_is_a_package_of_each_component(self):
        self.assertEqual(set(self.debs), set(PACKAGES.values()))

    def test_all_have_the_version_of_the_project_and_a_description(self):
        for package in self.debs:
            with self.subTest(package):
                self.assertEqual(self.field(package, "Version"), VERSION)
                self.assertRegex(self.field(package, "Description"), r"\A[^\n]{20,79}\n [^;]*\.\Z")
                self.assertRegex(self.field(package, "Maintainer"), r"\A\S.* <\S+@\S+>\Z")

    def test_they_hold_what_is_installed_for_root_and_writable_for_nobody_else(self):
        expected = expected_files()
        for component, package in PACKAGES.items():
            with self.subTest(package):
                rows = [line.split(maxsplit=5) for line in run("dpkg-deb", "-c", self.debs[package]).stdout.splitlines()]
                files = {row[5].partition(" -> ")[0].removeprefix(".") for row in rows if not row[0].startswith("d")}
                self.assertEqual(files, expected[component])
                self.assertEqual({row[1] for row in rows}, {"root/root"})
                modes = {row[0] for row in rows}
                self.assertLessEqual(modes, {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"})

    def test_only_the_trainer_needs_torch(self):
        for package in self.debs:
            self.assertEqual("libtorch1.13" in self.field(package, "Depends"), package == "lowgear-trainer", package)

    def test_packages_of_one_build_go_together(self):
        same = f"(= {VERSION})"
        self.assertIn(f"lowgear {same}", self.field("lowgear-trainer", "Depends"))
        self.assertIn(f"lowgear {same}", self.field("lowgear-simgpu", "Depends"))
        self.assertIn(f"liblowgear1 {same}", self.field("liblowgear-dev", "Depends"))
        self.assertIn(f"liblowgear1 (>= {VERSION})", self.field("python3-lowgear", "Depends"))
        self.assertEqual(self.field("python3-lowgear", "Architecture"), "all")

    def test_programs_depend_on_the_libraries_that_they_load(self):
        for library in ("libc6", "libfmt9", "libsqlite3-0"):
            self.assertIn(library, self.field("lowgear", "Depends"))
        self.assertNotRegex(self.field("liblowgear1", "Depends"), "libfmt|libstdc")

    def test_nobody_is_given_the_simulation_in_the_place_of_nvml(self):
        self.assertFalse((self.control("lowgear-simgpu") / "shlibs").exists())
        self.assertEqual(self.field("lowgear-simgpu", "Provides"), "")

    def test_configurations_are_kept_when_packages_are_upgraded(self):
        self.assertEqual((self.control("lowgear") / "conffiles").read_text().split(),
                         sorted(path for path in expected_files()["lowgear"] if path.startswith("/etc/")))

    def test_scripts_are_those_of_deploy(self):
        sources = [path for path in (SOURCE / "deploy/debian").glob("*/*") if path.name.startswith(("pre", "post"))]
        self.assertEqual(len(sources), 5)
        for source in sources:
            script = self.control(source.parent.name) / source.name
            self.assertEqual(script.read_text(), source.read_text())
            self.assertTrue(os.access(script, os.X_OK), script)
            run("sh", "-n", script)


if __name__ == "__main__":
    unittest.main()
