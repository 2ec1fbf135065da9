"""The Debian packages, as CPack makes them of this build. Needs neither root nor a network."""

import functools
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from installed_files import BUILD, PACKAGES, SOURCE, VERSION, expected_files, run


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("file"),
                     "no Debian packages are made: dpkg-shlibdeps or file is missing (packages dpkg-dev and file)")
class DebianPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="lowgear-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # The published packages are compressed more, which would take most of the time of this test.
        run(os.environ["CPACK"], "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder, "-D",
            "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
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
        # An upgrade of lowgear alone would remove what depends on the very version; they refuse another by themselves.
        for package in ("lowgear-trainer", "lowgear-simgpu"):
            self.assertIn(f"lowgear (>= {VERSION})", self.field(package, "Depends"))
        self.assertIn(f"liblowgear1 {same}", self.field("liblowgear-dev", "Depends"))
        self.assertIn(f"liblowgear1 (>= {VERSION})", self.field("python3-lowgear", "Depends"))
        self.assertEqual(self.field("python3-lowgear", "Architecture"), "all")

    def test_programs_depend_on_the_libraries_that_they_load(self):
        for library in ("libc6", "libfmt9", "libsqlite3-0", "libssl3"):
            self.assertIn(library, self.field("lowgear", "Depends"))
        self.assertNotRegex(self.field("liblowgear1", "Depends"), "libfmt|libstdc|libssl")

    def test_nobody_is_given_the_simulation_in_the_place_of_nvml(self):
        self.assertFalse((self.control("lowgear-simgpu") / "shlibs").exists())
        self.assertEqual(self.field("lowgear-simgpu", "Provides"), "")

    def test_no_package_has_a_configuration_that_agent_init_would_have_to_replace(self):
        self.assertFalse((self.control("lowgear") / "conffiles").exists())
        self.assertEqual([path for path in set.union(*expected_files().values()) if path.startswith("/etc/")], [])

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
