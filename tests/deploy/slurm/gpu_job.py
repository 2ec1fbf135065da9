"""What the jobs of these tests run: a training process with a lease on the GPU of its rank, which follows a plan:
gpu_job.py SECONDS [--escape]. It says "ok" with its GPU when its clocks follow the plan.

--escape: the process that trains leaves Slurm's step, as far as a process can."""

import json
import os
import signal
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "python"))

import lowgear  # noqa: E402

CLOCKS_MHZ = (1200, 900, 1500)


def write_plan():
    ops = [{"op": "forward", "microbatch": i, "mhz": mhz, "start_s": 0.1 * i, "duration_s": 0.1}
           for i, mhz in enumerate(CLOCKS_MHZ)]
    path = Path(f"plan-{os.getpid()}.json")
    path.write_text(json.dumps({"format": "lowgear.plan/1", "policy": "test", "schedule": "gpipe", "microbatches": len(ops),
                                "deadline_s": 1, "time_s": 1, "energy_j": 1.0, "switches": 2,
                                "stages": [{"stage": 0, "ops": ops}]}), encoding="utf-8")
    return path


def main(seconds):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    client = lowgear.Client()
    client.load_plan(str(write_plan()))
    print("ok", client.status().gpu_uuid, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with client.iteration():
            for microbatch in range(len(CLOCKS_MHZ)):
                with client.unit("forward", 0, microbatch):
                    time.sleep(0.02)


if __name__ == "__main__":
    if "--escape" in sys.argv and os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # Slurm waits for those who have its pipes
            os.dup2(nowhere, stream)
        for name in [name for name in os.environ if name.startswith("SLURM")]:
            del os.environ[name]
    elif "--escape" in sys.argv:
        time.sleep(float(sys.argv[1]))
        sys.exit()
    main(float(sys.argv[1]))
