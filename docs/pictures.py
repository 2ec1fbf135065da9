"""Makes docs/report.png and docs/estimate.png with a built lowgear and Chromium: python3 docs/pictures.py [LOWGEAR]"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/server"))
from browser import Browser  # noqa: E402: the tests are no package

JOB = ["--model", "llama-3-70b", "--gpu", "h100-sxm", "--gpus", "64", "--tp", "8", "--pp", "4",
       "--global-batch", "512", "--seq", "8192"]


def draw(page, picture, width, height):
    with Browser(width, height) as browser:
        browser.go(page.as_uri())
        browser.wait("document.documentElement.dataset.ready === '1'")
        browser.screenshot(ROOT / "docs" / picture)


def main():
    lowgear = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/bin/lowgear")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        subprocess.run([lowgear, "example", "--out", out / "example"], check=True)
        subprocess.run([lowgear, "plan", out / "example/profile.csv", "--microbatches", "32", "--out", out / "plan"],
                       check=True)
        draw(out / "plan/report.html", "report.png", 1280, 1500)
        subprocess.run([lowgear, "estimate", *JOB, "--plan", "--html", out / "estimate.html"], check=True)
        draw(out / "estimate.html", "estimate.png", 1200, 1500)


if __name__ == "__main__":
    main()
