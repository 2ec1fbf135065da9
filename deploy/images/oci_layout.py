"""Writes images in the layout of the Open Container Initiative, with one layer and the same bytes for the same root."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Layer:
    compressed: bytes
    diff_id: str
    size: int  # bytes before compression


@dataclass(frozen=True)
class Image:
    """The description of an image."""
    name: str
    version: str
    title: str
    user: str
    command: tuple
    ports: tuple
    epoch: int


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def iso_time(epoch):
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_layer(root, owners, epoch):
    """Packs the files of a folder in the order of their names, owned by root except for `owners` ({path: user}), and
    with times of at most `epoch`."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(p.relative_to(root).as_posix() for p in Path(root).rglob("*")):
            file = Path(root) / path
            member = archive.gettarinfo(file, arcname=path)
            member.uid = member.gid = owners.get("/" + path, 0)
            member.uname = member.gname = ""
            member.mtime = min(int(member.mtime), epoch)
            if member.islnk():  # the order of two names is not a property of the root
                member.type, member.linkname, member.size = tarfile.REGTYPE, "", os.stat(file).st_size
            if member.isreg():
                with open(file, "rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)
    data = raw.getvalue()
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=compressed, mode="wb", compresslevel=6, mtime=0) as stream:
        stream.write(data)
    return Layer(compressed.getvalue(), sha256(data), len(data))


def labels_of(image):
    return {"org.opencontainers.image.title": image.title, "org.opencontainers.image.version": image.version,
            "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.created": iso_time(image.epoch),
            "org.opencontainers.image.ref.name": f"{image.name}:{image.version}"}


def config_of(image, layer, architecture):
    return {"created": iso_time(image.epoch), "architecture": architecture, "os": "linux",
            "config": {"User": image.user, "Entrypoint": list(image.command), "WorkingDir": "/",
                       "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
                       "ExposedPorts": {port: {} for port in image.ports}, "Labels": labels_of(image)},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
            "history": [{"created": iso_time(image.epoch), "created_by": "Debian packages"}]}


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def layout_of(image, layer, architecture="amd64"):
    """The files of an image's layout as {path: bytes}."""
    blobs = {}

    def blob(media, data):
        digest = sha256(data)
        blobs["blobs/sha256/" + digest.removeprefix("sha256:")] = data
        return {"mediaType": media, "digest": digest, "size": len(data)}

    manifest = {"schemaVersion": 2, "mediaType": f"{MEDIA}.manifest.v1+json",
                "config": blob(f"{MEDIA}.config.v1+json", as_json(config_of(image, layer, architecture))),
                "layers": [blob(f"{MEDIA}.layer.v1.tar+gzip", layer.compressed)], "annotations": labels_of(image)}
    entry = blob(f"{MEDIA}.manifest.v1+json", as_json(manifest))
    entry["annotations"] = {"org.opencontainers.image.ref.name": image.version,
                            "io.containerd.image.name": f"docker.io/library/{image.name}:{image.version}"}
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [entry]}
    return {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": as_json(index), **blobs}


def digest_of(layout):
    return json.loads(layout["index.json"])["manifests"][0]["digest"]


def write_archive(layout, file):
    """The layout as one file, which `skopeo copy oci-archive:`, `podman load` and `ctr images import` read."""
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for name in ("blobs", "blobs/sha256"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for path in sorted(layout):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(layout[path]), 0o644
            archive.addfile(member, io.BytesIO(layout[path]))
