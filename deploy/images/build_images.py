#!/usr/bin/env python3
"""Builds container images of Lowgear from Debian packages, without a container engine and without root.

    build_images.py --debs FOLDER --wheel FILE --version VERSION --out FOLDER [NAME...]

For every NAME of images.json (default: all) writes lowgear-NAME_VERSION.oci.tar and .spdx.json to the output folder, and
keeps its root in roots/NAME. The same packages and SOURCE_DATE_EPOCH give the same bytes.
"""

import argparse
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import debian_root
import oci_layout
import sbom

HERE = Path(__file__).resolve().parent
SBOM_PLACE = "usr/share/lowgear/sbom.spdx.json"


def unpack_wheel(wheel, place):
    """Installs the command, and the package where the command finds it, without the simulated GPUs."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("lowgear/simgpu/"):
                continue
            target = name
            if ".data/scripts/" in name:
                target = "bin/" + name.rpartition("/")[2]
            elif ".dist-info/licenses/" in name:
                target = "licenses/" + name.rpartition("/")[2]
            elif ".dist-info/" in name:
                continue
            file = place / target
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))
            file.chmod(0o755 if target.startswith("bin/") else 0o644)


def make_root(spec, table, packages, root, wheel=None):
    """Makes the root of an image. Returns the owners of folders that do not belong to root."""
    debian_root.unpack(packages, root)
    debian_root.write_users(root, table["users"], table["groups"])
    if "wheel" in spec:
        unpack_wheel(wheel, root / spec["wheel"].lstrip("/"))
    for place, target in spec.get("links", {}).items():
        (root / place.lstrip("/")).symlink_to(target)
    for place in spec.get("folders", {}):
        (root / place.lstrip("/")).mkdir(parents=True, mode=0o755)
    return {place: table["users"][user] for place, user in spec.get("folders", {}).items()}


def build(name, table, packages, settings):
    """Builds one image; returns its layout, its layer and its list of contents."""
    spec = table["images"][name]
    root = settings.out / "roots" / name
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    owners = make_root(spec, table, packages, root, settings.wheel)
    entries = [sbom.entry_of(package) for package in packages]
    entries += [sbom.wheel_entry(settings.wheel, settings.version)] if "wheel" in spec else []
    contents = sbom.document(f"lowgear-{name}", settings.version, entries, settings.epoch)
    (root / SBOM_PLACE).parent.mkdir(parents=True, exist_ok=True)
    (root / SBOM_PLACE).write_text(contents)
    image = oci_layout.Image(f"lowgear-{name}", settings.version, spec["title"], spec["user"], tuple(spec["command"]),
                             tuple(spec["ports"]), settings.epoch)
    layer = oci_layout.make_layer(root, owners, settings.epoch)
    return oci_layout.layout_of(image, layer), layer, contents


def read_arguments(words):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--debs", type=Path, required=True, help="folder of Lowgear's Debian packages")
    parser.add_argument("--wheel", type=Path, help="Lowgear's wheel, for the image client")
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="folder of downloaded packages (default: apt in the output folder)")
    parser.add_argument("names", nargs="*", metavar="NAME")
    settings = parser.parse_args(words)
    settings.epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    settings.out = settings.out.resolve()
    settings.cache = (settings.cache or settings.out / "apt").resolve()
    return settings


def main(words):
    os.umask(0o022)
    settings = read_arguments(words)
    table = json.loads((HERE / "images.json").read_text())
    unknown = set(settings.names) - set(table["images"])
    if unknown:
        sys.exit(f"there is no image {' '.join(sorted(unknown))}; there are {' '.join(table['images'])}")
    settings.out.mkdir(parents=True, exist_ok=True)
    for name in settings.names or table["images"]:
        packages = debian_root.packages_for(table["images"][name]["packages"], settings.debs, settings.cache)
        layout, layer, contents = build(name, table, packages, settings)
        stem = settings.out / f"lowgear-{name}_{settings.version}"
        oci_layout.write_archive(layout, f"{stem}.oci.tar")
        Path(f"{stem}.spdx.json").write_text(contents)
        print(f"{stem.name}.oci.tar: {layer.size / 1e6:.1f} MB, {len(layer.compressed) / 1e6:.1f} MB compressed, "
              f"{len(packages)} packages, {oci_layout.digest_of(layout)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
