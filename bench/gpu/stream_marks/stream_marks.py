#!/usr/bin/env python3
"""When marks of units on a stream are recorded, against CUDA events of one's own, and what they cost.

    PYTHONPATH=python LOWGEAR_LIBRARY=liblowgear.so.1 python3 bench/gpu/stream_marks/stream_marks.py [--units N] [--fill]

Needs one NVIDIA GPU and PyTorch; sets nothing of the GPU. Units are kernels of 0.3 to 3 ms that the host queues far ahead
of the GPU. Around each an event is recorded right before the mark, on the default stream and on one of PyTorch's own.
--fill: as where the driver writes no numbers in streams, so that four bytes are filled instead (compiles a library with
g++).

An event's time on the host's clock is known to some microseconds: in pauses between units, events are polled for that
complete on an idle stream, and the earliest sighting before and after a batch gives clock offset and drift.
"""

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import lowgear

REACH_MEDIAN_US, REACH_P99_US = 30, 200
BATCH = 50  # units between two calibrations: well below a second
SIGHTINGS = 100
KIND, STAGE = "forward", 0

FORWARDER = """
extern "C" int cuStreamWriteValue32_v2(void*, unsigned long long, unsigned, unsigned) { return 801; }
"""


def library_that_writes_nothing(folder):
    """A libcuda whose streams write no numbers: CUDA_ERROR_NOT_SUPPORTED, and all else from the driver itself."""
    source, library = Path(folder) / "no_write.cpp", Path(folder) / "libno_write.so"
    source.write_text(FORWARDER)
    subprocess.run(["g++", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", library, source, "-l:libcuda.so.1"], check=True)
    return str(library)


class HostClock:
    """Times of events on the host's monotonic clock, in ns, for one batch."""

    def __init__(self):
        self.base = event()
        self.base.record()
        self.sightings = []

    def sight(self):
        """The earliest sighting of many, as (ms since the base, offset in ns). The stream is idle."""
        torch.cuda.synchronize()
        found = []
        for _ in range(SIGHTINGS):
            one = event()
            one.record()
            while not one.query():
                pass
            now_ns = time.monotonic_ns()
            since_ms = self.base.elapsed_time(one)
            found.append((now_ns - since_ms * 1e6, since_ms))
        offset_ns, since_ms = min(found)
        self.sightings.append((since_ms, offset_ns))

    def time_ns(self, one):
        (first_ms, first_ns), (last_ms, last_ns) = self.sightings
        since_ms = self.base.elapsed_time(one)
        share = (since_ms - first_ms) / (last_ms - first_ms)
        return since_ms * 1e6 + first_ns + share * (last_ns - first_ns)


def event():
    return torch.cuda.Event(enable_timing=True)


def cycles_per_ms():
    begin, end = event(), event()
    torch.cuda._sleep(10**7)  # warm-up
    begin.record()
    torch.cuda._sleep(10**8)
    end.record()
    torch.cuda.synchronize()
    return 10**8 / begin.elapsed_time(end)


def run_batch(client, sizes, rate, marks_ns, host_costs_us):
    """Marks and runs one batch of units. Adds the events' times (begin, end) in ns to `marks_ns`, and what each pair of
    marks took of the host to `host_costs_us`."""
    clock = HostClock()
    clock.sight()
    events = []
    client.iteration_begin()
    for size_ms in sizes:
        begin, end = event(), event()
        begin.record()
        before_ns = time.perf_counter_ns()
        client.unit_begin(KIND, STAGE)
        between_ns = time.perf_counter_ns()
        for _ in range(3):
            torch.cuda._sleep(int(size_ms * rate / 3))
        end.record()
        after_ns = time.perf_counter_ns()
        client.unit_end(KIND, STAGE)
        host_costs_us.append((between_ns - before_ns + time.perf_counter_ns() - after_ns) / 1e3)
        events.append((begin, end))
    client.iteration_end()
    clock.sight()
    marks_ns += [(clock.time_ns(begin), clock.time_ns(end)) for begin, end in events]


def recorded_ns(folder):
    """(begin, end) of each unit in ns of the host's monotonic clock, in order."""
    rank = Path(folder) / "rank-00000"
    start_s = json.loads((rank / "recording.json").read_text())["start_monotonic_s"]
    with open(rank / "units.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [((start_s + float(row["start_s"])) * 1e9, (start_s + float(row["end_s"])) * 1e9) for row in rows]


def relay_cpu_s():
    """CPU time of the library's thread that looks for numbers; 0 before it has begun."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "lowgear-marks":
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0


def measure(stream, units, rate, follows):
    """Errors of begins and ends in us, costs of a pair of marks for the host in us, share of a core for the relay."""
    marks_ns, host_costs_us = [], []
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, torch.cuda.stream(stream):
        with lowgear.Client(agent_socket="", recording=folder, rank=0, world_size=1) as client:
            if follows:
                client.use_stream(stream.cuda_stream)
                status = client.status()
                if not status.stream_marks:
                    sys.exit(f"marks do not follow the stream: {status.stream_problem}")
            begun_s, cpu_before_s = time.monotonic(), relay_cpu_s()
            for _ in range(units // BATCH):
                run_batch(client, [draw.uniform(0.3, 3) for _ in range(BATCH)], rate, marks_ns, host_costs_us)
            time.sleep(0.01)
            cpu = (relay_cpu_s() - cpu_before_s) / (time.monotonic() - begun_s) if follows else None
            status = client.status()
            if status.lost or status.mismatched or status.stream_problem:
                sys.exit(f"marks went wrong: {status}")
        recorded = recorded_ns(folder)
    if len(recorded) != len(marks_ns):
        sys.exit(f"{len(marks_ns)} units were run and {len(recorded)} recorded")
    errors = [[(ours[i] - theirs[i]) / 1e3 for ours, theirs in zip(recorded, marks_ns)] for i in (0, 1)]
    return errors, host_costs_us, cpu


def gpu_cost_us(stream, rate):
    """What a mark takes of the GPU: kernels of 50 us one after the other, with two marks each and without."""
    def run(client):
        begin, end = event(), event()
        torch.cuda.synchronize()
        begin.record()
        for _ in range(1000):
            if client:
                client.unit_begin(KIND, STAGE)
            torch.cuda._sleep(int(0.05 * rate))
            if client:
                client.unit_end(KIND, STAGE)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e3 / 1000

    with torch.cuda.stream(stream), lowgear.Client(agent_socket="", rank=0, world_size=1) as client:
        client.use_stream(stream.cuda_stream)
        return statistics.median(run(client) - run(None) for _ in range(9)) / 2


def at(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def row(name, errors_us):
    sizes = [abs(error) for error in errors_us]
    return (f"| {name} | {len(errors_us)} | {statistics.median(errors_us):+.1f} us | {at(sizes, 0.5):.1f} us "
            f"| {at(sizes, 0.99):.1f} us | {max(sizes):.1f} us |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--fill", action="store_true", help="the driver writes no numbers in streams")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.fill:
            os.environ["LOWGEAR_CUDA"] = library_that_writes_nothing(folder)
        torch.cuda.init()
        rate = cycles_per_ms()
        how = "fills of four bytes" if arguments.fill else "stream writes"
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {how}\n")
        print("| mark, against its event | units | median | median size | p99 size | largest |\n|---|---|---|---|---|---|")
        reached, costs, cpus = True, {}, []
        for name, stream, follows in (("default stream", torch.cuda.default_stream(), True),
                                      ("another stream", torch.cuda.Stream(), True),
                                      ("marks of the host", torch.cuda.default_stream(), False)):
            errors, costs[name], cpu = measure(stream, arguments.units, rate, follows)
            for what, errors_us in zip(("begin", "end"), errors):
                print(row(f"{what}, {name}", errors_us))
                sizes = [abs(error) for error in errors_us]
                within = at(sizes, 0.5) <= REACH_MEDIAN_US and at(sizes, 0.99) <= REACH_P99_US
                reached = reached and (within or not follows)
            if cpu is not None:
                cpus.append(cpu)
        print("\n| what | cost |\n|---|---|")
        for name, costs_us in costs.items():
            print(f"| begin and end from Python, {name} | median {at(costs_us, 0.5):.2f} us, p99 {at(costs_us, 0.99):.2f} us |")
        print(f"| a mark, of the GPU's time | {gpu_cost_us(torch.cuda.default_stream(), rate):.2f} us |")
        print(f"| the thread that looks for numbers | {100 * max(cpus):.1f} % of a core |")
        print(f"\nreach: <= {REACH_MEDIAN_US} us median, <= {REACH_P99_US} us p99 on streams: {'yes' if reached else 'no'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
