#!/usr/bin/env python3
"""deploy/images, with small packages that this test makes: what is in an image, whose it is, and that the same packages
give the same bytes. Needs dpkg-deb, neither root nor a network."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(os.environ["SOURCE"])
sys.path.insert(0, str(SOURCE / "deploy/images"))

import build_images  # noqa: E402
import debian_root  # noqa: E402
import oci_layout  # noqa: E402
import sbom  # noqa: E402

EPOCH = 1_700_000_000
TABLE = {"users": {"keeper": 4001}, "groups": {"drivers": 4002}}


@unittest.skipUnless(shutil.which("dpkg-deb"), "no images are built: dpkg-deb is missing (package dpkg)")
class Images(unittest.TestCase):
    def setUp(self):
        self.work = Path(tempfile.mkdtemp(prefix="lowgear-images-"))
        self.addCleanup(shutil.rmtree, self.work)

    def deb(self, name, files, version="1.0-1"):
        tree = self.work / f"tree-{name}"
        for path, (text, mode) in files.items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(mode)
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nSource: {name}-source (1.0)\n"
            "Maintainer: Some Makers <makers@example.org>\nDescription: a package\n")
        deb = self.work / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, deb], check=True, stdout=subprocess.DEVNULL)
        return debian_root.read_package(deb)

    def packages(self):
        return [self.deb("one", {"usr/bin/one": ("#!/bin/sh\n", 0o755), "usr/share/man/man1/one.1": ("manual", 0o644),
                                 "usr/share/doc/one/copyright": ("ours", 0o644), "usr/share/doc/one/NEWS": ("n", 0o644)}),
                self.deb("two", {"lib/x86_64-linux-gnu/libtwo.so.2": ("library", 0o644)}, version="1:2.0+x")]

    def root(self, packages, name="root", spec=None):
        root = self.work / name
        root.mkdir()
        owners = build_images.make_root(spec or {}, TABLE, packages, root)
        return root, owners

    def image(self):
        return oci_layout.Image("lowgear-x", "1.2.3", "a title", "4001:4001", ("/usr/bin/one",), ("80/tcp",), EPOCH)

    def members(self, layer):
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer.compressed))) as archive:
            return {member.name: member for member in archive.getmembers()}

    def test_a_root_holds_what_programs_read_below_usr(self):
        root, _ = self.root(self.packages())
        self.assertTrue(os.access(root / "bin/one", os.X_OK))
        self.assertEqual((root / "usr/lib/x86_64-linux-gnu/libtwo.so.2").read_text(), "library")
        self.assertEqual(os.readlink(root / "lib"), "usr/lib")
        self.assertEqual((root / "usr/share/doc/one/copyright").read_text(), "ours")
        self.assertFalse((root / "usr/share/doc/one/NEWS").exists())
        self.assertFalse((root / "usr/share/man").exists())
        self.assertIn("Version: 1:2.0+x", (root / "var/lib/dpkg/status.d/two").read_text())
        self.assertIn("keeper:x:4001:4001:", (root / "etc/passwd").read_text())
        self.assertIn("drivers:x:4002:", (root / "etc/group").read_text())

    def test_the_same_packages_give_the_same_bytes(self):
        layouts = []
        for attempt in ("first", "second"):
            root, owners = self.root(self.packages() if attempt == "first" else packages, attempt)
            packages = [debian_root.read_package(deb) for deb in sorted(self.work.glob("*.deb"), reverse=True)]
            for file in root.rglob("*"):  # what unpacking now instead of later would change
                os.utime(file, (EPOCH + 5000 + len(layouts),) * 2, follow_symlinks=False)
            layouts.append(oci_layout.layout_of(self.image(), oci_layout.make_layer(root, owners, EPOCH)))
        self.assertEqual(layouts[0], layouts[1])
        for number, layout in enumerate(layouts):
            oci_layout.write_archive(layout, self.work / f"{number}.tar")
        self.assertEqual((self.work / "0.tar").read_bytes(), (self.work / "1.tar").read_bytes())
        (root / "usr/bin/one").write_text("changed")
        changed = oci_layout.layout_of(self.image(), oci_layout.make_layer(root, owners, EPOCH))
        self.assertNotEqual(oci_layout.digest_of(changed), oci_layout.digest_of(layouts[0]))

    def test_files_are_of_root_in_the_order_of_their_names_and_none_is_newer_than_the_date(self):
        root, owners = self.root(self.packages(), spec={"folders": {"/var/lib/keeper": "keeper"}})
        members = self.members(oci_layout.make_layer(root, owners, EPOCH))
        self.assertEqual(list(members), sorted(members))
        self.assertEqual(members["var/lib/keeper"].uid, 4001)
        self.assertEqual({m.uid for name, m in members.items() if name != "var/lib/keeper"}, {0})
        self.assertEqual({m.uname for m in members.values()}, {""})
        self.assertLessEqual(max(m.mtime for m in members.values()), EPOCH)

    def test_a_layout_is_what_its_digests_say(self):
        root, owners = self.root(self.packages())
        layer = oci_layout.make_layer(root, owners, EPOCH)
        layout = oci_layout.layout_of(self.image(), layer)
        for path, data in layout.items():
            if path.startswith("blobs/"):
                self.assertEqual(path.rpartition("/")[2], hashlib.sha256(data).hexdigest())

        def blob(descriptor):
            data = layout["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
            self.assertEqual(len(data), descriptor["size"])
            return data

        manifest = json.loads(blob(json.loads(layout["index.json"])["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        unpacked = gzip.decompress(blob(manifest["layers"][0]))
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(unpacked).hexdigest()])
        self.assertEqual((config["config"]["User"], config["config"]["Entrypoint"]), ("4001:4001", ["/usr/bin/one"]))
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3")
        self.assertEqual(layer.size, len(unpacked))

    def test_its_contents_are_listed_with_versions_and_checksums(self):
        packages = self.packages()
        listed = json.loads(sbom.document("lowgear-x", "1.2.3", [sbom.entry_of(p) for p in packages], EPOCH))
        self.assertEqual(listed["spdxVersion"], "SPDX-2.3")
        of_two = next(p for p in listed["packages"] if p["name"] == "two")
        self.assertEqual(of_two["versionInfo"], "1:2.0+x")
        self.assertEqual(of_two["checksums"][0]["checksumValue"], hashlib.sha256(packages[1].file.read_bytes()).hexdigest())
        self.assertEqual(of_two["externalRefs"][0]["referenceLocator"],
                         "pkg:deb/debian/two@1%3A2.0%2Bx?arch=amd64&distro=debian-12")
        known = {p["SPDXID"] for p in listed["packages"]} | {"SPDXRef-DOCUMENT"}
        for relation in listed["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)

    def test_the_client_has_the_command_next_to_its_package_and_no_simulation(self):
        wheel = self.work / "lowgear.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in ("lowgear/__init__.py", "lowgear/simgpu/libnvidia-ml.so.1", "lowgear-1.data/scripts/lowgear",
                         "lowgear-1.dist-info/RECORD", "lowgear-1.dist-info/licenses/Lowgear"):
                archive.writestr(name, name)
        build_images.unpack_wheel(wheel, self.work / "place")
        files = {p.relative_to(self.work / "place").as_posix() for p in (self.work / "place").rglob("*") if p.is_file()}
        self.assertEqual(files, {"lowgear/__init__.py", "bin/lowgear", "licenses/Lowgear"})
        self.assertTrue(os.access(self.work / "place/bin/lowgear", os.X_OK))

    def test_an_image_that_there_is_not_is_named(self):
        with self.assertRaises(SystemExit) as refused:
            os.environ["SOURCE_DATE_EPOCH"] = "1"
            build_images.main(["--debs", str(self.work), "--version", "1", "--out", str(self.work), "agnet"])
        self.assertIn("there is no image agnet; there are agent server client trainer", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
