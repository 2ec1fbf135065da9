"""peer_rank.py PROGRAM SETTINGS: one rank of a training job with the real, unmodified client of Perseus or Zeus.

SETTINGS is JSON. In place of a model, simulated kernels: with Perseus' client their times and energies follow from the
clock by a formula, so that they are the same in every run, and with Zeus' they run on simulated GPUs. The loop of the
artifact's Merak (facts, not code): ask for a schedule, run a window of iterations, report, ask; `[profiling-done]` in
the error ends training; energies by instruction are left empty.
"""

import ctypes
import inspect
import json
import multiprocessing
import os
import pathlib
import sys
import time


def one_f_one_b(stages, stage, microbatches):
    """The names of a stage's computations, in the order in which it runs them."""
    warm_up = min(stages - stage, microbatches)
    return ["forward"] * (warm_up - 1) + ["forward", "backward"] * (microbatches - warm_up + 1) + \
        ["backward"] * (warm_up - 1)


class Place:
    """Where the rank is: pipeline ranks innermost, as Merak numbers them."""

    def __init__(self, settings):
        self.rank = int(os.environ["RANK"])
        self.pp, self.dp, self.tp = settings["pp"], settings["dp"], settings["tp"]
        self.stage = self.rank % self.pp
        self.dp_rank = self.rank // self.pp % self.dp
        self.tp_rank = self.rank // self.pp // self.dp


def hold_if_asked(settings, window):
    """Waits, with no request under way, until the test has done what it wants to do at this window."""
    if window != settings.get("hold_at"):
        return
    group = pathlib.Path(os.environ["STAND_IN_GROUP"])
    (group / f"held-{os.environ['RANK']}").touch()
    while not (group / "go").exists():
        time.sleep(0.01)


# --- Perseus


def power_states(mode, device):
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(device)
    if mode == "frequency":
        memory_mhz = max(pynvml.nvmlDeviceGetSupportedMemoryClocks(handle))
        return pynvml.nvmlDeviceGetSupportedGraphicsClocks(handle, memory_mhz)
    low_mw, high_mw = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
    return list(range(high_mw // 1000, low_mw // 1000 - 1, -25))


class SimulatedKernels:
    """Faster and hotter the higher the power state; later stages have more to do; the first iteration is cold."""

    def __init__(self, stage, highest_state, instructions):
        self.stage, self.highest_state, self.instructions = stage, highest_state, instructions

    def time_s(self, instruction, state):
        work = {"forward": 0.02, "backward": 0.04}.get(instruction, 0)
        return work * (1 + 0.1 * self.stage) * (0.3 + 0.7 * self.highest_state / state)

    def power_w(self, state):
        return 110 + 250 * (state / self.highest_state) ** 3

    def iteration(self, states, cold, controller):
        times = {"forward": [], "backward": []}
        energy_j = 0.0
        for instruction, state in zip(self.instructions, states):
            controller.set(state)
            if instruction not in times:
                continue
            time_s = self.time_s(instruction, state) * (1.5 if cold else 1)
            times[instruction].append(time_s)
            energy_j += time_s * self.power_w(state)
        waiting_s = 0.05 * (1 + self.stage)
        return sum(map(sum, times.values())) + waiting_s, energy_j + waiting_s * 80, times


def perseus(settings):
    sys.path.insert(0, settings["perseus"])
    from perseus import client
    from perseus.client import power_state
    from perseus.models import PipeInstruction

    place = Place(settings)
    mode = client.get_server_info(settings["url"]).mode
    states = power_states(mode, place.rank)
    instructions = ["load"] if place.stage == 0 else []
    for name in one_f_one_b(place.pp, place.stage, settings["microbatches"]):
        instructions += ["p2p", name]
    instructions += ["cc", "step"]
    job = client.init(
        rank=place.rank, dp_rank=place.dp_rank, pp_rank=place.stage, tp_rank=place.tp_rank, pp_degree=place.pp,
        dp_degree=place.dp, tp_degree=place.tp, world_size=place.pp * place.dp * place.tp,
        pipe_schedule=[PipeInstruction(name) for name in instructions], server_url=settings["url"],
        power_state_range=states, framework="merak", model_name="gpt3-large", partition_method=settings["partition"],
        microbatch_size=4, num_microbatches=settings["microbatches"])
    power_state.init_global_power_controller(None, settings["out"], place.rank, mode)
    controller = power_state.get_power_controller()
    kernels = SimulatedKernels(place.stage, max(states), instructions)
    ran = []
    while True:
        try:
            schedule = client.get_power_state_schedule().power_states
        except RuntimeError as error:
            if "[profiling-done]" not in str(error):
                controller.end()
                raise
            break
        ran.append(schedule)
        hold_if_asked(settings, len(ran))
        iterations = [kernels.iteration(schedule, i == 0, controller) for i in range(settings["iterations"])]
        kinds = (PipeInstruction.FORWARD, PipeInstruction.BACKWARD)
        client.report_profiling_result(
            [time_s for time_s, _, _ in iterations], [energy_j for _, energy_j, _ in iterations],
            {kind: [times[kind.value] for _, _, times in iterations] for kind in kinds},
            {kind: [[] for _ in iterations] for kind in kinds})
    controller.end()
    return {"job": job, "states": states, "ran": ran}


# --- Zeus


class SimulatedGpu:
    def __init__(self, index):
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._run = self._library.lowgear_simgpu_run_kernel
        self._run.argtypes = [ctypes.c_int] + 4 * [ctypes.c_double] + [ctypes.c_void_p]
        self._index = index

    def run(self, compute_s):
        assert self._run(self._index, compute_s, 0.0, 1.0, 0.5, None) == 0

    def locked_mhz(self):
        low, high = ctypes.c_int(), ctypes.c_int()
        assert self._library.lowgear_simgpu_locked_sm_clocks(self._index, ctypes.byref(low), ctypes.byref(high)) == 0
        return [low.value, high.value]


def wait_for_clock(gpu, mhz):
    """The controller sets clocks in a process of its own, some time after it was told."""
    while gpu.locked_mhz() != [mhz, mhz]:
        assert multiprocessing.active_children(), f"the controller has ended without setting {mhz} MHz"
        time.sleep(0.01)


def zeus(settings):
    """Zeus' own example: an optimizer in the training framework, told of each step and each instruction."""
    sys.path.insert(0, settings["zeus"])
    from zeus.optimizer.pipeline_frequency import PipelineFrequencyOptimizer

    place = Place(settings)
    optimizer = PipelineFrequencyOptimizer(
        rank=place.rank, dp_rank=place.dp_rank, pp_rank=place.stage, tp_rank=place.tp_rank, device_id=place.rank,
        dp_degree=place.dp, pp_degree=place.pp, tp_degree=place.tp, world_size=place.pp * place.dp * place.tp,
        server_url=settings["url"], job_metadata="gpt3-large")
    gpu = SimulatedGpu(place.rank)
    for _ in range(settings["iterations"]):
        optimizer.on_step_begin()
        for name in one_f_one_b(place.pp, place.stage, settings["microbatches"]):
            optimizer.on_instruction_begin(name)
            gpu.run(0.001)
            optimizer.on_instruction_end(name)
        optimizer.on_step_end()
    wait_for_clock(gpu, optimizer.freq_schedule[-1][1])
    return {"job": optimizer.job_id, "frequencies": optimizer.freq_schedule}


def wait_for_answers():
    """The clients give up a request after httpx's 5 s; a busy machine may need longer."""
    import httpx

    default = inspect.signature(httpx.post).parameters["timeout"].default
    default.connect = default.read = default.write = default.pool = None


def main():
    wait_for_answers()
    program, settings = sys.argv[1], json.loads(sys.argv[2])
    sys.path.insert(0, settings["stand_ins"])
    result = {"perseus": perseus, "zeus": zeus}[program](settings)
    pathlib.Path(settings["out"], f"rank-{os.environ['RANK']}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
