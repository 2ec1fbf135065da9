"""Root file systems from Debian packages alone: apt chooses the packages, dpkg-deb unpacks them, nothing is run."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Files that programs do not read. Copyrights stay.
PRUNED = ("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion",
          "usr/share/zsh", "usr/share/fish", "usr/share/gdb", "usr/lib/*/gconv", "usr/share/bug", "usr/lib/systemd",
          "usr/lib/sysusers.d", "usr/include")
MERGED = ("bin", "sbin", "lib", "lib64")


@dataclass(frozen=True)
class Package:
    """A package that is unpacked in a root."""
    file: Path
    name: str
    version: str
    architecture: str
    source: str
    maintainer: str
    sha256: str
    control: str


def read_package(file):
    control = subprocess.run(["dpkg-deb", "--field", file], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(": ", 1) for line in control.splitlines() if not line.startswith(" ") and ": " in line)
    return Package(Path(file), fields["Package"], fields["Version"], fields["Architecture"],
                   fields.get("Source", fields["Package"]).partition(" ")[0], fields["Maintainer"],
                   hashlib.sha256(Path(file).read_bytes()).hexdigest(), control)


def apt(folder, *arguments, archives="archives"):
    """Runs apt-get with this machine's archives, as for a machine on which nothing is installed."""
    (folder / archives / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    options = {"Dir::State::status": folder / "status", "Dir::Cache": folder, "Dir::Cache::archives": folder / archives,
               "Dir::Cache::pkgcache": "pkgcache.bin", "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
               "APT::Install-Recommends": "false", "APT::Sandbox::User": "", "Debug::NoLocking": "true"}
    command = ["apt-get", "-q", "-y", *(f"-o{key}={value}" for key, value in options.items()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder / archives)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr.strip()}")
    return done.stdout


def files_of(folder, *request):
    """Downloads the missing packages of a request to apt-get and returns all of them. apt names only packages that it
    would download, so it is asked with a folder that stays empty."""
    listed = apt(folder, "--print-uris", *request, archives="none")
    files = [uri_file(line, folder) for line in listed.splitlines() if line.startswith("'")]
    if not all(file.exists() for file in files):
        apt(folder, *(("--download-only",) if request[0] == "install" else ()), *request)
    return files


def uri_file(line, folder):
    uri, name = line.split()[:2]
    uri = uri.strip("'")
    return Path(uri.removeprefix("file:")) if uri.startswith("file:") else folder / "archives" / name


def packages_for(names, own, folder):
    """Packages with all their dependencies, and base-files without its own: scanners read the release from base-files.
    `own`: folder of packages that are preferred to those of the archives."""
    wanted = [next(iter(sorted(Path(own).resolve().glob(f"{name}_*.deb"))), name) for name in names]
    files = files_of(folder, "install", *wanted) + files_of(folder, "download", "base-files")
    return sorted({package.name: package for package in map(read_package, files)}.values(), key=lambda p: p.name)


def unpack(packages, root):
    """Unpacks packages into an empty folder, in which /bin, /lib... are links into /usr."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        extract(package.file, root)
    prune(root)
    database = root / "var/lib/dpkg/status.d"
    database.mkdir(parents=True)
    for package in packages:
        (database / package.name).write_text(package.control)


def extract(file, root):
    """Unpacks through tar, as dpkg-deb --extract would replace a link to a folder by a folder."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE) as unpacked:
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root], stdin=unpacked.stdout,
                       check=True)
    if unpacked.returncode:
        raise RuntimeError(f"{file}: dpkg-deb ended with {unpacked.returncode}")


def prune(root):
    for pattern in PRUNED:
        for folder in root.glob(pattern):
            shutil.rmtree(folder)
    for file in (root / "usr/share/doc").rglob("*"):
        if not file.is_dir() and file.name != "copyright":
            file.unlink()


def write_users(root, users, groups):
    """Writes the users and groups of an image, besides root and nobody."""
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    lines = [f"{name}:x:{number}:{number}::/:/usr/sbin/nologin\n" for name, number in users.items()]
    (etc / "passwd").write_text("root:x:0:0:root:/root:/usr/sbin/nologin\n" + "".join(lines)
                                + "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")
    (etc / "group").write_text("root:x:0:\n" + "".join(f"{name}:x:{number}:\n" for name, number in groups.items())
                               + "nogroup:x:65534:\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
