"""The GPUs of the node that Slurm gave to a job or step."""

import re
from dataclasses import dataclass
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True)
class Allocation:
    """GPUs of a job on this node."""

    uuids: tuple = ()  # in the order of Slurm's list
    problem: str = ""  # why the GPUs are unknown or shared with other jobs; empty: none


def minor_numbers(folder=DRIVER):
    """The number N of /dev/nvidiaN by PCI address, from NVIDIA's driver; empty without the driver."""
    numbers = {}
    for path in folder.glob("*/information"):
        found = re.search(r"^Device Minor:\s*(\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            numbers[path.parent.name.lower()] = int(found[1])
    return numbers


def _numbered(gpus, minors):
    """UUIDs by Slurm's number: the number of the device file, or NVML's index without a driver (simulated GPUs)."""
    if not minors:
        return {gpu["index"]: gpu["uuid"] for gpu in gpus}
    return {minors[gpu["pci_address"].lower()]: gpu["uuid"] for gpu in gpus if gpu["pci_address"].lower() in minors}


def _shared(environment):
    """The reason why other jobs may have the same GPUs; empty if the job has them alone."""
    for kind, names in {"gres/mps": ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "SLURM_JOB_MPS"),
                        "gres/shard": ("SLURM_SHARDS_ON_NODE", "SLURM_JOB_SHARDS")}.items():
        if any(environment.get(name) for name in names):
            return f"the job has GPUs by {kind}, which it shares with other jobs"
    return ""


def allocation(environment, gpus, minors, variable="SLURM_JOB_GPUS"):
    """The GPUs that `variable`, a list of numbers or UUIDs, gives to the job. `gpus`: the agent's list;
    `minors`: from minor_numbers()."""
    words = [word.strip() for word in environment.get(variable, "").split(",") if word.strip()]
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    shared = _shared(environment)
    if shared:
        return Allocation(problem=shared)
    if not words:
        return Allocation()
    if any(word.startswith("MIG-") for word in words) or "MIG-" in visible:
        return Allocation(problem="the job has MIG devices: energy and clocks are those of the whole GPU")
    known, numbered = {gpu["uuid"] for gpu in gpus}, _numbered(gpus, minors)
    if not all(word in known for word in words) and any(gpu["mig_enabled"] for gpu in gpus):
        return Allocation(problem="a GPU of this node has MIG enabled, so that Slurm's numbers do not name GPUs")
    found = []
    for word in words:
        uuid = word if word in known else numbered.get(int(word)) if word.isdigit() else None
        if uuid is None:
            return Allocation(problem=f"{variable}={environment[variable]}: the agent has no GPU {word}")
        found.append(uuid)
    return Allocation(tuple(found))


def visible_uuids(environment, gpus, minors):
    """The value of CUDA_VISIBLE_DEVICES with UUIDs in place of numbers, or None if its GPUs are uncertain. With a cgroup
    its numbers count the step's GPUs from 0, without one all GPUs of the node; both lists have the same GPUs in the
    same order."""
    words = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    variable = "SLURM_STEP_GPUS" if environment.get("SLURM_STEP_GPUS") else "SLURM_JOB_GPUS"
    own = allocation(environment, gpus, minors, variable)
    if own.problem or len(own.uuids) != len(words) or not all(word.isdigit() for word in words):
        return None
    return ",".join(own.uuids)
