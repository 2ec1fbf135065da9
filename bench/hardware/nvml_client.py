#!/usr/bin/env python3
"""Reads and sets simulated GPUs through nvidia-ml-py: nvml_client.py LOWGEAR.

Refuses to do anything unless the NVML library that is loaded is Lowgear's simulation. Started by nvml_clients.sh.
"""
import ctypes
import json
import subprocess
import sys
import threading
import time

if not hasattr(ctypes.CDLL("libnvidia-ml.so.1"), "lowgear_simgpu_version"):
    sys.exit("libnvidia-ml.so.1 is not Lowgear's simulation; nothing was done")

import pynvml as nvml  # noqa: E402  (only now that it is known what it will load)

lowgear = sys.argv[1]


def truth(index=0):
    """What the simulated machine itself says of a GPU."""
    text = subprocess.run([lowgear, "simgpu", "show", "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(text)["gpus"][index]


def check(what, condition):
    if not condition:
        sys.exit(f"check failed: {what}")
    print(f"ok  {what}")


def refused(call, code):
    """Whether the call fails with this NVML error."""
    try:
        call()
    except nvml.NVMLError as error:
        return error.value == code
    return False


nvml.nvmlInit()
check("two GPUs", nvml.nvmlDeviceGetCount() == 2)
uuid = truth()["uuid"]
gpu = nvml.nvmlDeviceGetHandleByUUID(uuid)
check("UUID", nvml.nvmlDeviceGetUUID(gpu) == uuid)
check("name", nvml.nvmlDeviceGetName(gpu) == "NVIDIA H100 80GB HBM3")
pci = nvml.nvmlDeviceGetPciInfo(gpu)
check("PCI address", pci.busId.lower().endswith(truth()["pci_address"]))
same = nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)
check("handle by PCI address", nvml.nvmlDeviceGetUUID(same) == uuid)
check("memory", nvml.nvmlDeviceGetMemoryInfo(gpu).total > 80e9)
check("memory, version 2", nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2).reserved > 0)
check("supported memory clocks", nvml.nvmlDeviceGetSupportedMemoryClocks(gpu) == [2619, 1593])
clocks = nvml.nvmlDeviceGetSupportedGraphicsClocks(gpu, 2619)
check("supported SM clocks", clocks == list(range(1980, 330, -15)))
check("compute capability", nvml.nvmlDeviceGetCudaComputeCapability(gpu) == (9, 0))
check("power limits", nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu) == [200000, 700000])
check("temperature", 20 < nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU) < 90)
time.sleep(2)  # the average power looks back one second
check("idle power", 60 < nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3 < 75)
check("idle clock", nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) == 345)
check("idle reason", nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) == 1)
check("fan not supported", refused(lambda: nvml.nvmlDeviceGetFanSpeed(gpu), nvml.NVML_ERROR_NOT_SUPPORTED))

load = threading.Thread(
    target=subprocess.run, args=([lowgear, "simgpu", "run", "--gpu", "0", "--time", "6"],),
    kwargs={"check": True, "stdout": subprocess.DEVNULL})
load.start()
time.sleep(2)
before = nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
time.sleep(1)
gained_w = (nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) - before) / 1e3
check(f"busy power by counter ({gained_w:.0f} W)", 600 < gained_w < 800)
check("power cap", nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) & nvml.nvmlClocksThrottleReasonSwPowerCap)
check("instant power", 400 < nvml.nvmlDeviceGetFieldValues(gpu, [186])[0].value.uiVal / 1e3 < 1000)
check("utilisation", nvml.nvmlDeviceGetUtilizationRates(gpu).gpu > 90)
check("process", len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)) == 1)
nvml.nvmlDeviceSetGpuLockedClocks(gpu, 900, 900)
time.sleep(0.5)
check("clock follows", nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) == 900)
check("lock is in the machine", truth()["locked_sm_clocks_mhz"] is not None)
nvml.nvmlDeviceResetGpuLockedClocks(gpu)
check("reset", truth()["locked_sm_clocks_mhz"] is None)
nvml.nvmlDeviceSetPowerManagementLimit(gpu, 400000)
check("power limit", nvml.nvmlDeviceGetPowerManagementLimit(gpu) == 400000)
check("power limit out of range", refused(
    lambda: nvml.nvmlDeviceSetPowerManagementLimit(gpu, 900000), nvml.NVML_ERROR_INVALID_ARGUMENT))
nvml.nvmlDeviceSetPowerManagementLimit(gpu, 700000)
load.join()
nvml.nvmlShutdown()
check("uninitialised", refused(nvml.nvmlDeviceGetCount, nvml.NVML_ERROR_UNINITIALIZED))
print("all checks passed")
