"""What the tests of installing share: how commands are run, and which files belong to which component."""

import os
import re
import subprocess
from pathlib import Path

BUILD, SOURCE, PREFIX = (Path(os.environ[name]) for name in ("BUILD", "SOURCE", "PREFIX"))
LIBDIR, VERSION = os.environ["LIBDIR"], os.environ["VERSION"]
SECRET = re.compile(r"\.tokens?$")  # what tokens.sh makes
PACKAGES = {
    "lowgear": "lowgear",
    "trainer": "lowgear-trainer",
    "simgpu": "lowgear-simgpu",
    "library": "liblowgear1",
    "development": "liblowgear-dev",
    "python": "python3-lowgear",
}


def run(*words, environment=None, check=True):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LOWGEAR_", "PYTHONPATH"))}
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                            env=clean | {"OMP_NUM_THREADS": "1"} | (environment or {}))
    if check and result.returncode != 0:
        raise AssertionError(f"{words} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result


def verbs():
    """As manual pages name them: dashes for blanks."""
    listed = run(BUILD / "bin" / "lowgear", "man").stdout.partition(".SH VERBS")[2].replace("\\-", "-")
    return [re.sub(" -*", "-", name) for name in re.findall(r"^\.TP\n\\fB(.*)\\fR$", listed, re.MULTILINE)]


def is_installed(path):
    return path.is_file() and path.name != ".gitignore" and path.suffix != ".pyc" and not SECRET.search(path.name)


def expected_files():
    share, lib = PREFIX / "share", PREFIX / LIBDIR
    zsh = "vendor-completions" if PREFIX == Path("/usr") else "site-functions"
    data = [path.relative_to(SOURCE) for path in (SOURCE / "data").rglob("*") if path.is_file()]
    lowgear = [PREFIX / "bin/lowgear", lib / "liblowgear_planning.so"]
    lowgear += [share / "lowgear" / name for name in ("agent.yaml", "server.yaml")]
    lowgear += [PREFIX / f"lib/systemd/system/lowgear-{name}.service" for name in ("agent", "server")]
    lowgear += [share / "lowgear/systemd/lowgear-agent-mps.conf"]
    lowgear += [PREFIX / "lib/sysusers.d/lowgear-server.conf"]
    lowgear += [share / "man/man1/lowgear.1.gz"] + [share / f"man/man1/lowgear-{verb}.1.gz" for verb in verbs()]
    lowgear += [share / "bash-completion/completions/lowgear", share / f"zsh/{zsh}/_lowgear"]
    lowgear += [share / "lowgear/monitoring" / name for name in
                ("dashboards/lowgear-fleet.json", "dashboards/lowgear-gpu.json", "dashboards/lowgear-job.json",
                 "operator/rules.yaml")]  # render.py makes them
    lowgear += [share / "lowgear" / path.relative_to(SOURCE / "deploy") for part in ("kubernetes", "monitoring", "slurm")
                for path in (SOURCE / "deploy" / part).rglob("*")
                if is_installed(path) and not (part == "monitoring" and path.suffix == ".py")]
    lowgear += [share / "lowgear" / path for path in data]
    lowgear += [share / "doc/lowgear" / path.name for path in (SOURCE / "docs").glob("*") if path.suffix in (".md", ".png")]
    lowgear += [share / "doc/lowgear/bench" / name for name in ("ACCURACY.md", "RESULTS.md", "accuracy/iterations.svg")]
    python = [path.relative_to(SOURCE / "python") for path in (SOURCE / "python/lowgear").rglob("*")
              if path.is_file() and "__pycache__" not in path.parts]
    files = {
        "lowgear": lowgear,
        "trainer": [PREFIX / "bin/lowgear-trainer", PREFIX / "bin/lowgear-sampler",
                    share / "lowgear/examples/llama-4-stages.yaml"],
        "simgpu": [lib / "lowgear/simgpu/libnvidia-ml.so.1", lib / "lowgear/simgpu/lowgear-simgpu-mps-control",
                   PREFIX / "include/lowgear_simgpu.h"],
        "library": [lib / "liblowgear.so.1", lib / "liblowgear.so.1.0.0"],
        "development": [lib / "liblowgear.so", PREFIX / "include/lowgear.h"],
        "python": [PREFIX / "lib/python3/dist-packages" / path for path in python],
    }
    for component, package in PACKAGES.items():
        files[component] += [share / "doc" / package / name for name in ("copyright", "changelog.gz")]
    return {component: {str(path) for path in paths} for component, paths in files.items()}
