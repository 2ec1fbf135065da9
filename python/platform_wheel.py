"""Builds the wheel that needs no other installation: the package, and what was compiled for it.

    python3 platform_wheel.py --out DIR --command lowgear --library liblowgear.so.1 \
        --planning-library liblowgear_planning.so --simulated-nvml libnvidia-ml.so.1

The same files give the same wheel, byte by byte. Its tag says the oldest glibc that all of them load with, and at least
2.31, which is what they are tested with. Needs nothing but Python.
"""

import argparse
import struct
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import build_backend  # noqa: E402  next to this file, which is to stay as it is

_OLDEST_MINOR = 31
_MACHINES = {62: "x86_64", 183: "aarch64"}  # as ELF numbers them
_VERSION_NEEDS = 0x6FFFFFFE  # a section's type
_SECTION = struct.Struct("<IIQQQQIIQQ")


class NotALibrary(Exception):
    """A file is none that this wheel can hold."""


def _sections(content):
    """Type, content and string table's number of each section of a 64-bit, little-endian ELF file."""
    offset, size, count = struct.unpack_from("<Q", content, 40)[0], *struct.unpack_from("<HH", content, 58)
    for place in range(offset, offset + size * count, size):
        _, kind, _, _, begin, length, link, *_ = _SECTION.unpack_from(content, place)
        yield kind, content[begin : begin + length], link


def _needed_versions(content):
    """Names of the symbol versions that a library or program asks others for, such as GLIBC_2.17."""
    sections = list(_sections(content))
    for kind, needs, link in sections:
        if kind != _VERSION_NEEDS:
            continue
        names = sections[link][1]
        place = 0
        while True:
            _, count, _, first, following = struct.unpack_from("<HHIII", needs, place)
            version = place + first
            for _ in range(count):
                _, _, _, name, next_version = struct.unpack_from("<IHHII", needs, version)
                yield names[name : names.index(b"\0", name)].decode()
                version += next_version
            if following == 0:
                break
            place += following


def platform_tag(contents):
    """The platform that all these programs and libraries run on, such as manylinux_2_31_x86_64.

    Raises NotALibrary for what is no 64-bit program or library of Linux, for different machines, and for files that need
    more than the C library.
    """
    machines, minor = set(), _OLDEST_MINOR
    for name, content in contents.items():
        if content[:6] != b"\x7fELF\x02\x01":
            raise NotALibrary(f"{name}: is no 64-bit program or library")
        machines.add(_MACHINES.get(struct.unpack_from("<H", content, 18)[0]))
        for version in _needed_versions(content):
            if not version.startswith("GLIBC_2."):
                raise NotALibrary(f"{name}: needs {version}, which not every system has; link that library statically")
            minor = max(minor, int(version.split(".")[1]))
    if len(machines) != 1 or None in machines:
        raise NotALibrary(f"{', '.join(contents)}: are not all for one of the machines {', '.join(_MACHINES.values())}")
    return f"manylinux_2_{minor}_{machines.pop()}"


def build(out, command, library, planning_library, simulated_nvml, notices):
    """Writes the wheel into a folder and returns its name. The other arguments are paths; `notices` has one for each
    name of what is compiled in."""
    name = build_backend.project_name()
    program = f"{name}.data/scripts/lowgear"
    compiled = {
        f"{build_backend.PACKAGE}/liblowgear.so.1": library.read_bytes(),
        f"{build_backend.PACKAGE}/liblowgear_planning.so": planning_library.read_bytes(),
        f"{build_backend.PACKAGE}/simgpu/libnvidia-ml.so.1": simulated_nvml.read_bytes(),
        program: command.read_bytes(),
    }
    tag = f"py3-none-{platform_tag(compiled)}"
    licences = {f"{name}.dist-info/licenses/{of}": path.read_bytes() for of, path in sorted(notices.items())}
    files = {**build_backend.modules(), **compiled, **licences, **build_backend.info_files(tag)}
    out.mkdir(parents=True, exist_ok=True)
    return build_backend.write_wheel(out, files, tag, programs={program})


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for option in ("--out", "--command", "--library", "--planning-library", "--simulated-nvml"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--notice", metavar="NAME=FILE", action="append", default=[])
    arguments = vars(parser.parse_args())
    pairs = (notice.partition("=") for notice in arguments.pop("notice"))
    try:
        print(arguments["out"] / build(**arguments, notices={of: Path(file) for of, _, file in pairs}))
    except (NotALibrary, OSError) as error:
        sys.exit(f"platform_wheel.py: {error}")


if __name__ == "__main__":
    main()
