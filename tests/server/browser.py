"""Headless Chromium driven through a pipe by the DevTools protocol, with nothing but the standard library."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from waiting import wait_until  # noqa: E402: the tests are no package

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
]


def find_chromium():
    return shutil.which("chromium")


class BrowserError(Exception):
    pass


class Browser:
    """One browser with one page. Everything that a console or the network would complain about is in `complaints`."""

    def __init__(self, width=1400, height=1000, dark=False):
        self.profile = tempfile.mkdtemp(prefix="lowgear-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, find_chromium(), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last_id, self.session, self.complaints, self.answers = b"", 0, None, [], {}
        target = next(t for t in self.command("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")
        self.resize(width, height)
        self.set_dark(dark)

    def close(self):
        os.close(self.write_end)
        os.close(self.read_end)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            # The whole session of this browser, and nothing else.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- protocol -----------------------------------------------------------------------------------------------------

    def command(self, method, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while self.last_id not in self.answers:
            self.receive()
        answer = self.answers.pop(self.last_id)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def receive(self):
        chunk = os.read(self.read_end, 1 << 20)
        if not chunk:
            raise BrowserError("the browser has ended")
        *messages, self.buffer = (self.buffer + chunk).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.note(message["method"], message["params"])

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}".strip())

    # --- what a person does -------------------------------------------------------------------------------------------

    def resize(self, width, height, mobile=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=mobile)

    def set_dark(self, dark):
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def go(self, url):
        self.command("Page.navigate", url=url)

    def value(self, expression):
        """Value of a JavaScript expression, which may be a promise."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
            userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression, what=""):
        """Waits until the expression is truthy; one that throws is not yet."""
        asked = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        wait_until(lambda: self.value(asked), what or expression, pause_s=0.05)

    def key(self, key, code=None, modifiers=0):
        texts = {"Enter": "\r", "Tab": "\t", " ": " "}
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = texts.get(key, key if len(key) == 1 else "")
        virtual = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        for kind in ("keyDown", "keyUp"):
            self.command("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                text=text if kind == "keyDown" else "",
                         windowsVirtualKeyCode=virtual, modifiers=modifiers)

    def type(self, text):
        self.command("Input.insertText", text=text)

    def mouse(self, kind, x, y, button="none"):
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(button == "left"),
            clickCount=1)

    def screenshot(self, path, whole=False):
        options = {}
        if whole:
            size = self.command("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"],
                "height": size["height"], "scale": 1}}
        Path(path).write_bytes(base64.b64decode(self.command("Page.captureScreenshot", **options)["data"]))
