"""Simulated GPUs on this machine, and the agent that sets their clocks, for the examples."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time


INTERRUPTED = 130  # exit status of a program that Ctrl-C has ended, also in good order
PATIENCE_S = 120  # a machine that has other work to do makes every process wait


def end_all(processes):
    """Asks all that still run to end, and kills those that do not in time."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_with(main):
    """Ends the program as `main` says, and by Ctrl-C without a traceback, once what it has started has ended."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def name_warnings(*logs):
    """Says how many warnings these files have, which the screen does not show."""
    for log in filter(os.path.exists, logs):  # a machine that nothing ran on has none
        with open(log, encoding="utf-8", errors="replace") as file:
            count = file.read().count("warning: ")
        if count:
            print(f"{count} warning{'s'[count == 1:]} of the commands: {log}", flush=True)


def fresh_folder(path):
    """The folder as a whole path, emptied."""
    folder = path.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


class Machine:
    """Simulated GPUs and a running agent; LOWGEAR_* of this process point to them. `agent_nvml`: the library that the
    agent loads instead of the simulation's."""

    def __init__(self, build, folder, log, gpus, model="A100", agent_nvml=None):
        self.log = log
        self.gpus = gpus
        self.model = model
        self.agent_nvml = agent_nvml
        self.lowgear = str(build / "bin" / "lowgear")
        self.folder = folder
        self.agent = None
        os.environ["LOWGEAR_NVML"] = str(build / "simgpu" / "libnvidia-ml.so.1")
        os.environ["LOWGEAR_SIMGPU"] = str(folder / "machine")
        os.environ["LOWGEAR_AGENT_SOCKET"] = str(folder / "lease.sock")

    def __enter__(self):
        self.run("simgpu", "create", "--gpus", f"{self.gpus}x{self.model}", "--any-user")
        config = self.folder / "agent.yaml"
        config.write_text(
            f'journal: "{self.folder}/journal"\nsockets: {{lease_socket: "{self.folder}/lease.sock", http_socket: "{self.folder}/agent.sock"}}\n'
            "gpu: [{id: all}]\nallow: [{everybody: true}]\n"
        )
        config.chmod(0o600)
        environment = {**os.environ, **({"LOWGEAR_NVML": str(self.agent_nvml)} if self.agent_nvml else {})}
        # In a separate process group: only the example receives Ctrl-C, and ends the agent in order.
        self.agent = subprocess.Popen([self.lowgear, "agent", "--config", str(config)], stderr=subprocess.PIPE,
                                      process_group=0, env=environment)
        end = time.monotonic() + PATIENCE_S
        while not self.answers():
            if self.agent.poll() is not None or time.monotonic() > end:
                raise SystemExit("the agent did not start: " + self.agent.stderr.read().decode())
            time.sleep(0.05)
        return self

    def answers(self):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.folder / "lease.sock"))
                return True
            except OSError:
                return False

    def __exit__(self, *_):
        self.agent.send_signal(signal.SIGTERM)
        self.agent.communicate(timeout=PATIENCE_S)
        name_warnings(self.log)

    def run(self, *words):
        """The standard output of a command; its remarks go to a log."""
        result = subprocess.run([self.lowgear, *map(str, words)], capture_output=True, text=True)
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"$ lowgear {' '.join(map(str, words))}\n{result.stderr}")
        if result.returncode != 0:
            raise SystemExit(f"lowgear {words[0]} failed:\n{result.stderr}")
        return result.stdout

    def gpu_name(self):
        return json.loads(self.run("simgpu", "show", "--json"))["gpus"][0]["name"]
