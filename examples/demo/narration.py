"""Lines of the demos for a person who waits."""

import time

QUIET_S = 60  # after which a demo says that it still waits


def say(text):
    print(f"[demo] {text}", flush=True)


def invalid_text(jobs):
    """Why figures of the jobs mean nothing on this machine; empty: they mean something."""
    for job in jobs:
        for problem in job["problems"]:
            if problem["kind"] == "figures_invalid":
                return f"{problem['text']}; start the demo again when this machine has less other work to do"
    return ""


class Narration:
    """Says how far the jobs are: each change, and after a minute of silence their iterations."""

    def __init__(self):
        self.progress = ""
        self.invalid = ""
        self.said_s = time.monotonic()

    def tell(self, text):
        say(text)
        self.said_s = time.monotonic()

    def follow(self, jobs, progress):
        """`progress`: of the jobs, without the number of their iterations."""
        if progress != self.progress:
            self.tell(f"now {progress}")
        self.progress = progress
        invalid = invalid_text(jobs)
        if invalid and not self.invalid:
            self.tell(invalid)
        self.invalid = invalid
        if time.monotonic() - self.said_s > QUIET_S:
            self.tell(", ".join(f"{job['name']} {job['state']}, iteration {job['iteration']}" for job in jobs))
