"""Builds the package for pip (PEP 517, PEP 660): a wheel is the modules and what describes them. Needs nothing but Python,
and writes nothing into this folder, so that it may be read-only and stays as it is. platform_wheel.py adds what is
compiled."""

import base64
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = "lowgear"
TAG = "py3-none-any"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same wheel from the same sources


def _remove_compiled_copy():
    """Removes the compiled copy of this file that the interpreter has written next to it."""
    try:
        compiled = Path(__spec__.cached)
        compiled.unlink()
        compiled.parent.rmdir()
    except (OSError, TypeError):
        pass  # there is none, or others are with it


_remove_compiled_copy()


def _version():
    text = (FOLDER / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE).group(1)


def project_name():
    return f"{PACKAGE}-{_version()}"


def _metadata():
    return (
        f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {_version()}\n"
        "Summary: Clocks that follow a plan, and energy that is measured, for training processes\n"
        "License: Apache-2.0\nRequires-Python: >=3.8\n"
    ).encode()


def _entry_points():
    """Those of pyproject.toml: `import torch` calls what is listed for it."""
    text = (FOLDER / "pyproject.toml").read_text(encoding="utf-8")
    groups = re.findall(r'^\[project\.entry-points\."([^"]+)"\]\n((?:\w+ = ".*"\n)+)', text, re.MULTILINE)
    lines = (f"[{group}]\n" + entries.replace('"', "") for group, entries in groups)
    return "\n".join(lines).encode()


def info_files(tag):
    """What describes a wheel of this tag."""
    pure = "true" if tag == TAG else "false"
    wheel = f"Wheel-Version: 1.0\nGenerator: lowgear\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    files = {"METADATA": _metadata(), "WHEEL": wheel, "entry_points.txt": _entry_points()}
    return {f"{project_name()}.dist-info/{name}": content for name, content in files.items() if content}


def modules():
    files = (path for path in (FOLDER / PACKAGE).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in sorted(files)}


def write_wheel(directory, files, tag, programs=()):
    """A wheel of these files (name -> content), of which `programs` can be executed. Returns its name."""
    record = f"{project_name()}.dist-info/RECORD"
    rows = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}\n")
    files = {**files, record: ("".join(rows) + f"{record},,\n").encode()}
    wheel = f"{project_name()}-{tag}.whl"
    with zipfile.ZipFile(Path(directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(entry, content)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {**modules(), **info_files(TAG)}, TAG)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that leads to the modules here (pip install --editable)."""
    return write_wheel(wheel_directory, {f"{PACKAGE}.pth": f"{FOLDER}\n".encode(), **info_files(TAG)}, TAG)


def build_sdist(sdist_directory, config_settings=None):
    files = {**modules(), "PKG-INFO": _metadata()}
    for name in ("build_backend.py", "pyproject.toml"):
        files[name] = (FOLDER / name).read_bytes()
    sdist = f"{project_name()}.tar.gz"
    with tarfile.open(Path(sdist_directory) / sdist, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{project_name()}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return sdist
