"""The dashboard as the real server serves it, watching a job from its registration to a straggler and past a
SIGKILL."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import Browser, find_chromium
from training_ranks import TrainingRanks

LOWGEAR = os.environ.get("LOWGEAR_BINARY", "lowgear")
SKIP_CODE = 77
TOKEN = "a-token-for-tests-only"


class RealServer:
    """lowgear serve on a loopback port of its own choice, the same one when it is started again."""

    def __init__(self, folder):
        self.folder, self.address = folder, "127.0.0.1:0"
        tokens = folder / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"admin {TOKEN}\n")

    def start(self):
        self.process = subprocess.Popen(
            [LOWGEAR, "serve", "--state", str(self.folder / "state"), "--unix", str(self.folder / "socket"), "--listen",
             self.address, "--token-file", str(self.folder / "tokens"), "--json"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the server ended at its start")
            text += line
        [self.url] = json.loads(text)["tcp"]
        self.address = self.url.removeprefix("http://").rstrip("/")

    def end(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()
        self.process.stdout.close()


class WatchesARealServer(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.server = RealServer(self.folder)
        self.server.start()
        self.addCleanup(lambda: self.server.end(signal.SIGTERM))
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def wait_text(self, part, selector="#main"):
        self.browser.wait(f"document.querySelector({json.dumps(selector)}).textContent.includes({json.dumps(part)})",
                          f"{selector} says {part}")

    def train_until_something_is_saved(self, ranks):
        """Trains while the server profiles and plans, which takes it as long as it takes; returns the job's summary."""
        while ranks.iteration < 2000:
            ranks.train(5)
            summary = ranks.call("GET", f"/v1/jobs/{ranks.job}")["job"]
            if summary["saved_pct"] is not None:
                return summary
        self.fail(f"nothing was saved by iteration {ranks.iteration}: {summary}")

    def test_the_address_with_a_one_time_token_signs_in_once(self):
        browser, server = self.browser, self.server
        words = [LOWGEAR, "serve", "sign-in", "--unix", str(self.folder / "socket")]
        address = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        token = address.partition("#token=")[2]
        self.assertTrue(address.startswith(server.url) and token, address)
        browser.go(address)
        self.wait_text("No jobs yet")
        self.assertEqual(browser.value("location.href"), f"{server.url}/#/", "it is not in the history")
        self.assertNotEqual(browser.value("sessionStorage.getItem('lowgear.token')"), token)
        browser.value("document.getElementById('sign-out').click()")
        browser.wait("document.querySelector('.sign-in')", "it asks again")
        browser.value(f"location.hash = '#token={token}'")
        self.wait_text("this address was used")

    def test_from_the_first_rank_to_a_straggler_and_past_a_kill(self):
        browser, server = self.browser, self.server
        browser.go(server.url)
        browser.wait("document.activeElement.closest('.sign-in')", "a token is asked for")
        browser.type(TOKEN)
        browser.key("Enter")
        self.wait_text("No jobs yet")

        ranks = TrainingRanks(server.url, TOKEN)
        self.wait_text("made-up")
        browser.value("document.querySelector('.job-link').click()")
        self.wait_text("waiting for all ranks to register: 0 of 4 ranks")
        for rank in range(4):
            ranks.register(rank)
        summary = self.train_until_something_is_saved(ranks)
        browser.wait(f"document.documentElement.dataset.iteration === '{ranks.iteration - 1}'",
                     "all iterations are there")
        browser.wait("document.querySelectorAll('.frontier .point').length === 3", "the frontier is drawn")
        browser.wait("Number(document.querySelector('.timeline canvas').dataset.visibleOps) === 64",
                     "the timeline is drawn")
        self.wait_text(f"{summary['saved_pct']:.1f} ± ", ".card .value")
        self.wait_text("Energy saved, simulated", ".card")

        ranks.call("POST", f"/v1/jobs/{ranks.job}/straggler", {"rank": 2, "factor": 1.2})
        self.wait_text("Rank 2 is slower by a factor of 1.20", ".alerts")

        server.end(signal.SIGKILL)
        self.wait_text("The server does not respond", ".alerts")
        server.start()
        browser.wait("document.documentElement.dataset.connection === 'live'", "it is live again")
        ranks.train(20)
        browser.wait(f"document.documentElement.dataset.iteration === '{ranks.iteration - 1}'",
                     "iterations come again")
        known = ranks.call("GET", f"/v1/jobs/{ranks.job}/decisions")["decisions"]
        lines = "[...document.querySelectorAll('.decisions li')]"
        for decision in known:  # a decision whose neighbour says the same is not shown
            self.wait_text(decision["reason"], ".decisions")
        ids = browser.value(f"{lines}.map((line) => Number(line.dataset.id))")
        self.assertEqual(ids, sorted(set(ids), reverse=True), "none is there twice")
        self.assertLessEqual(set(ids), {decision["id"] for decision in
                                        ranks.call("GET", f"/v1/jobs/{ranks.job}/decisions")["decisions"]})

        expected = ("status of 401", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE")
        self.assertEqual([c for c in browser.complaints if not any(part in c for part in expected)], [])


if __name__ == "__main__":
    if find_chromium() is None:
        print("THE DASHBOARD IS NOT LOOKED AT IN A BROWSER: install chromium")
        raise SystemExit(1 if os.environ.get("LOWGEAR_REQUIRE_BROWSER") == "1" else SKIP_CODE)
    unittest.main()
