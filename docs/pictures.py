"""Makes the pictures of docs/ with a built lowgear and Chromium: python3 docs/pictures.py [BUILD [PICTURE]...]

report.png, estimate.png, curve.png, clocks.png, dashboard.png (minutes); grafana-fleet.png is drawn by the test deploy.panels.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/server"))
from browser import Browser  # noqa: E402: the tests are no package

JOB = ["--model", "llama-3-70b", "--gpu", "h100-sxm", "--gpus", "64", "--tp", "8", "--pp", "4",
       "--global-batch", "512", "--seq", "8192"]
READY = "document.documentElement.dataset.ready === '1'"


def draw(page, picture, width, height, until=READY):
    with Browser(width, height) as browser:
        browser.go(page)
        browser.wait(until)
        browser.screenshot(ROOT / "docs" / picture)


def report(build, out):
    lowgear = build / "bin/lowgear"
    subprocess.run([lowgear, "example", "--out", out / "example"], check=True)
    subprocess.run([lowgear, "plan", out / "example/profile.csv", "--microbatches", "32", "--out", out / "plan"],
                   check=True)
    draw((out / "plan/report.html").as_uri(), "report.png", 1280, 1500)


def estimate(build, out):
    page = out / "estimate.html"
    subprocess.run([build / "bin/lowgear", "estimate", *JOB, "--plan", "--html", page], check=True)
    draw(page.as_uri(), "estimate.png", 1200, 1500)


def curve(build, out):
    """Of the samples of an H200 in data/."""
    for name in ("curve.csv", "sampling.json"):
        shutil.copy(ROOT / "data/h200-sxm/curve" / name, out)
    subprocess.run([build / "bin/lowgear", "sample", "curve", "--out", out, "--fit"], check=True)
    draw((out / "curve.html").as_uri(), "curve.png", 1200, 1260)


def clocks(build, out):
    page = out / "clocks.html"
    subprocess.run([sys.executable, ROOT / "examples/agent-demo/demo.py", build, page], check=True)
    draw(page.as_uri(), "clocks.png", 1200, 640, "document.querySelectorAll('svg').length === 2")


def dashboard(build, out):
    """Of a job whose straggler has come and gone."""
    demo = subprocess.Popen([sys.executable, "-u", ROOT / "examples/demo/demo.py", build, "--straggler", "--port", "0",
                             "--out", out / "demo"], stdout=subprocess.PIPE, text=True)
    try:
        line = next(line for line in demo.stdout if "dashboard: " in line)
        with Browser(1280, 1345) as browser:
            browser.go(line.split("dashboard: ")[1].strip())
            browser.wait("document.querySelector('.job-link').click() || true", "a job is listed")
            browser.wait("document.querySelector('.decisions').textContent.includes('as fast as profiled again')",
                         "the straggler is over")
            seen = int(browser.value("document.documentElement.dataset.iteration"))
            browser.wait(f"Number(document.documentElement.dataset.iteration) >= {seen + 15}", "iterations after it")
            browser.screenshot(ROOT / "docs/dashboard.png")
    finally:
        demo.terminate()
        demo.communicate()


PICTURES = {"report": report, "estimate": estimate, "curve": curve, "clocks": clocks, "dashboard": dashboard}


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    for name in sys.argv[2:] or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            PICTURES[name](build, Path(folder))


if __name__ == "__main__":
    main()
