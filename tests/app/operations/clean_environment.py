"""The environment for programs under test: nothing of a launcher that runs the tests, and one core a rank."""

import os

CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_"))
    and name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "MPI_LOCALRANKID", "NNODES",
                     "NODE_RANK", "NPROC_PER_NODE")
}
CLEAN["OMP_NUM_THREADS"] = "1"
