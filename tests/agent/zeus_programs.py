"""zeus_programs.py PROGRAM: what users of Zeus write, with the real Zeus. Prints lines of JSON.

ZEUS_FOLDER is where Zeus lies, STAND_INS stands in for dependencies that are not installed. ZEUSD_SOCK_PATH is read by
Zeus itself.
"""

import json
import os
import subprocess
import sys
import time
import warnings

sys.path.insert(0, os.environ["ZEUS_FOLDER"])
sys.path.append(os.environ["STAND_INS"])



def say(**members):
    print(json.dumps(members), flush=True)


def wait_for_word():
    sys.stdin.readline()


def call_everything():
    """Every method of the client."""
    from zeus.utils.zeusd import ZeusdClient

    client = ZeusdClient()
    say(gpus=[[gpu.id, gpu.name, gpu.pci_address, gpu.cumulative_energy_available] for gpu in client.gpus],
        cpus=[[cpu.id, cpu.dram_available] for cpu in client.cpus],
        can=[client.can_read_gpu, client.can_control_gpu, client.can_read_cpu], auth_error=client.auth_error)
    say(energy=client.get_gpu_energy([0, 1]), power=client.get_gpu_power().power_mw,
        power_of_one=client.get_gpu_power([1]).power_mw, limit=client.get_power_limit(),
        constraints=client.get_power_limit_constraints([0]), persistence=client.get_persistence_mode())
    for block in (True, False):
        client.set_power_limit([0, 1], 400_000, block)
        client.set_persistence_mode([0], True, block)
        client.set_gpu_locked_clocks([0], 900, 1200, block)
        client.reset_gpu_locked_clocks([0], block)
        client.set_mem_locked_clocks([0], 1593, 2619, block)
        client.reset_mem_locked_clocks([0], block)
        client.reset_locked_clocks([0, 1], block)
    cpu = client.get_cpu_energy()
    say(cpu_energy={i: [each.cpu_energy_uj, each.dram_energy_uj] for i, each in cpu.items()},
        cpu_power={i: [each.cpu_mw, each.dram_mw] for i, each in client.get_cpu_power([0, 1]).power_mw.items()},
        clock_differs_s=abs(client.get_time() - time.time()))


def measure_cpus():
    from zeus.device.cpu.rapl import ZeusdRAPLCPU
    from zeus.utils.zeusd import ZeusdClient

    client = ZeusdClient()
    energies = [ZeusdRAPLCPU(i, client).get_total_energy_consumption() for i in client.cpu_ids]
    say(cpu_mj=[energy.cpu_mj for energy in energies], dram_mj=[energy.dram_mj for energy in energies])


def stream_power():
    from zeus.monitor.power_streaming import PowerStreamingClient
    from zeus.utils.zeusd import ZeusdConfig

    client = PowerStreamingClient([ZeusdConfig.from_env()])
    wanted = int(os.environ["DEVICES"])
    for readings in client:
        reading = next(iter(readings.values()))
        if len(reading.gpu_power_w) + len(reading.cpu_power_w) == wanted:
            break
    client.stop()
    say(gpu_w=reading.gpu_power_w, cpu_w={i: [each.cpu_w, each.dram_w] for i, each in reading.cpu_power_w.items()})


def set_and_reset():
    """What an optimizer does: limits, clocks, and back."""
    from zeus.device import get_gpus

    gpus = get_gpus()
    say(kind=type(gpus.gpus[0]).__name__, gpus=len(gpus))
    gpus.set_power_management_limit(0, 400_000)
    gpus.set_gpu_locked_clocks(0, 900, 1200)
    gpus.set_memory_locked_clocks(1, 1593, 1593)
    say(limit_mw=gpus.get_power_management_limit(0))
    wait_for_word()
    gpus.reset_gpu_locked_clocks(0)
    gpus.reset_memory_locked_clocks(1)
    gpus.reset_power_management_limit(0)
    say(limit_mw=gpus.get_power_management_limit(0))
    wait_for_word()
    gpus.set_gpu_locked_clocks(0, 900, 900)
    say(locked=True)
    wait_for_word()


def set_power_limit():
    """A process that only sets limits."""
    from zeus.device import get_gpus

    gpus = get_gpus()
    gpus.set_power_management_limit(0, 400_000)
    say(limit_mw=gpus.get_power_management_limit(0))
    wait_for_word()


def lock_clocks():
    """A process that only locks clocks."""
    from zeus.device import get_gpus

    get_gpus().set_gpu_locked_clocks(0, 900, 1200)
    say(locked=True)
    wait_for_word()


def true_energy_j():
    shown = subprocess.run([os.environ["LOWGEAR_BINARY"], "simgpu", "show", "--json"], capture_output=True, check=True)
    return json.loads(shown.stdout)["gpus"][0]["true_energy_j"]


def monitor_energy():
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor(cpu_indices=[])
    outer_j = true_energy_j()
    monitor.begin_window("load", sync_execution=False)
    inner_j = true_energy_j()
    subprocess.run([os.environ["LOWGEAR_BINARY"], "simgpu", "run", "--gpu", "0", "--time", "2"], check=True,
                   stdout=subprocess.DEVNULL)
    inner_j = true_energy_j() - inner_j
    measured = monitor.end_window("load", sync_execution=False)
    say(gpu_energy_j=measured.gpu_energy, inner_j=inner_j, outer_j=true_energy_j() - outer_j)


def start_power_monitor():
    """None on a machine so busy that the monitor's processes do not start within the 10 s that Zeus gives them."""
    from zeus.monitor import PowerMonitor

    for _ in range(3):
        try:
            return PowerMonitor(gpu_indices=[0], update_period=0.05)
        except RuntimeError as error:
            if "failed to start within" not in str(error):
                raise
    return None


def monitor_power():
    """Of GPUs that do nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monitor = start_power_monitor()
    say(started=monitor is not None)
    if monitor is None:
        return
    domains = sorted(domain.value for domain in monitor.measurement_domains)
    while len(monitor.get_power_timeline("device_instant")[0]) < 12:
        time.sleep(0.05)
    timeline = monitor.get_power_timeline("device_instant")[0]
    first, last = timeline[0][0], timeline[-1][0]
    energy_j = monitor.get_energy(first, last)[0]
    monitor.stop()
    say(domains=domains, warnings=[str(each.message) for each in caught], samples=len(timeline), energy_j=energy_j,
        mean_w=energy_j / (last - first))


if __name__ == "__main__":
    {function.__name__: function
     for function in (call_everything, measure_cpus, stream_power, set_and_reset, set_power_limit, lock_clocks,
                      monitor_energy, monitor_power)}[sys.argv[1]]()
