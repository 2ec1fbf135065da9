"""What each component installs, and that it works from there. Needs neither root nor a network."""

import configparser
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "dev"))

from documents_test import dead_links
from installed_files import BUILD, LIBDIR, PACKAGES, PREFIX, SECRET, SOURCE, VERSION, expected_files, run

TRAINING = """
model: {vocabulary: 256, hidden: 32, layers: 2, heads: 4, kv_heads: 2, intermediate: 64, max_positions: 64}
data: {synthetic_tokens: 10000, sequence_length: 32}
microbatches: 2
microbatch_size: 2
steps: 1
"""


def under(root, path):
    """Where a path of the installed system lies in a tree that stands for its root."""
    return root / str(path).lstrip("/")


def files_of(tree):
    return {"/" + str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()}


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

    def test_a_whole_installation_stays_below_its_prefix(self):
        tree = self.folder / "whole"
        run(os.environ["CMAKE"], "--install", BUILD, environment={"DESTDIR": str(tree)})
        files = files_of(tree)
        self.assertIn(str(PREFIX / "bin/lowgear"), files)
        self.assertEqual([path for path in files if not path.startswith(f"{PREFIX}/")], [])
        self.assertEqual(files - set.union(*expected_files().values()), set())

    def test_programs_and_libraries_name_no_folder_of_the_build(self):
        files = self.elf_files()
        self.assertEqual(len(files), 7)
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

    def configuration(self, name):
        return under(self.root, PREFIX / f"share/lowgear/{name}.yaml")

    def unit(self, name):
        unit = configparser.RawConfigParser(strict=False, delimiters="=")
        unit.optionxform = str
        unit.read(under(self.root, PREFIX / f"lib/systemd/system/lowgear-{name}.service"))
        return unit

    def test_units_start_the_program_that_is_installed_where_there_is_a_configuration(self):
        for name, verb in (("agent", "agent"), ("server", "serve")):
            with self.subTest(name):
                unit = self.unit(name)
                config = f"/etc/lowgear/{name}.yaml"
                self.assertEqual(unit["Service"]["ExecStart"], f"{PREFIX}/bin/lowgear {verb} --config {config}")
                self.assertEqual(unit["Unit"]["ConditionPathExists"], config)
                for key in ("ExecStart", "ExecStopPost"):
                    program = unit["Service"].get(key, f"{PREFIX}/bin/lowgear").split()[0]
                    self.assertTrue(os.access(under(self.root, program), os.X_OK), program)

    def test_units_make_the_folders_that_the_configurations_name(self):
        agent = yaml.safe_load(self.configuration("agent").read_text())
        unit = self.unit("agent")["Service"]
        self.assertEqual(agent["journal"], "/var/lib/" + unit["StateDirectory"])
        self.assertIn(f"--journal {agent['journal']}", unit["ExecStopPost"])
        for socket in ("lease_socket", "http_socket"):
            self.assertEqual(os.path.dirname(agent["sockets"][socket]), "/run/" + unit["RuntimeDirectory"])
        server = yaml.safe_load(self.configuration("server").read_text())
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
            # A folder of this user's own stands for /usr.
            self.lowgear(*words, self.configuration("agent" if words[0] == "agent" else "server"))

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
        run(sys.executable, "-c", script, environment={"PYTHONPATH": str(modules), "LD_LIBRARY_PATH": str(self.lib)})

    def test_doctor_asks_a_python_by_the_installed_package(self):
        said = self.lowgear("doctor", "--json", "--python", sys.executable, check=False).stdout
        report = json.loads(said)["python"]["report"]
        self.assertTrue(report["hook"])
        self.assertIn("Megatron Core", [framework["name"] for framework in report["frameworks"]])

    def test_the_library_that_programs_are_linked_with_is_the_one_that_they_load(self):
        self.assertEqual((self.lib / "liblowgear.so").resolve(), (self.lib / "liblowgear.so.1.0.0").resolve())
        self.assertIn("[liblowgear.so.1]", run(os.environ["READELF"], "--dynamic", self.lib / "liblowgear.so").stdout)

    def test_notices_of_what_is_compiled_in_are_there(self):
        # An empty line is a lone dot in Debian's format.
        notices = " ".join(re.sub(r"(?m)^ \.$", "", (SOURCE / "deploy/debian/copyright").read_text()).split())
        d3 = " ".join((SOURCE / "src/report/report/page/d3_license.txt").read_text().split())
        self.assertIn(d3[d3.index("Redistribution and use"):], notices)
        self.assertIn("Michael Bostock", notices)

    def test_links_of_pages_lead_to_what_is_installed(self):
        pages = sorted(self.trees["lowgear"].rglob("*.md"))
        self.assertGreater(len(pages), 20)
        for page in pages:
            with self.subTest(page.name):
                self.assertEqual(dead_links(page), [])

    def test_manifests_are_complete_and_can_be_copied(self):
        copy = self.work / "kubernetes"
        shutil.copytree(under(self.root, PREFIX / "share/lowgear/kubernetes"), copy)
        run(copy / "tokens.sh")
        self.assertTrue((copy / "base/tokens/server.tokens").is_file())
        self.assertEqual([path for path in files_of(self.root) if SECRET.search(path)], [])

    @unittest.skipUnless(shutil.which("kubectl"), "SKIPPED: there is no kubectl to render the installed manifests")
    def test_installed_manifests_are_rendered(self):
        shutil.copytree(under(self.root, PREFIX / "share/lowgear"), self.work / "deploy")
        copy = self.work / "deploy/kubernetes"
        run(copy / "tokens.sh")
        additions = {"power-share": "kind: NetworkPolicy"}  # to overlays that have the agents
        for overlay in sorted((copy / "overlays").iterdir()):
            kind = additions.get(overlay.name, "kind: DaemonSet")
            self.assertIn(kind, run("kubectl", "kustomize", overlay).stdout, overlay)

    def test_python_has_the_version_of_the_project(self):
        self.assertEqual(tomllib.loads((SOURCE / "python/pyproject.toml").read_text())["project"]["version"], VERSION)


if __name__ == "__main__":
    unittest.main()
