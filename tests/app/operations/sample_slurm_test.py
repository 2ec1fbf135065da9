"""examples/sampling/collectives.sbatch, with stand-ins for Slurm's commands that start its tasks on this machine: which
steps it makes, and the files that lowgear sample writes in them."""

import csv
import os
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from clean_environment import CLEAN

LOWGEAR = os.environ["LOWGEAR_BINARY"]
SCRIPT = Path(__file__).resolve().parents[3] / "examples/sampling/collectives.sbatch"

SCONTROL = """#!/bin/sh
[ "$1 $2 $3" = "show hostnames node[0-1]" ] || exit 1
echo 127.0.0.1; echo node1
"""

# Every task of the step at once, as Slurm names them to it; the step fails as its tasks do.
SRUN = """#!/bin/bash
echo "$*" >>"$STEPS"
while [[ $1 == --* ]]; do
  case $1 in
    --nodes) nodes=$2 ;;
    --ntasks-per-node) tasks=$2 ;;
    --kill-on-bad-exit=1) shift; continue ;;
  esac
  shift 2
done
for ((rank = 0; rank < nodes * tasks; ++rank)); do
  SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_LOCALID=$((rank % tasks)) SLURM_NTASKS=$((nodes * tasks)) "$@" &
  ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank" || status=1; done
exit ${status:-0}
"""


def free_ports(count):
    """The first of so many ports in a row that nothing listens on."""
    for first in range(30100, 32000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for place, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + place))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError("no free ports")


class SampleSlurmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lowgear-slurm-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
            path = self.folder / name
            path.write_text(text)
            path.chmod(0o755)

    def run_script(self, *words, **variables):
        environment = {**CLEAN, "PATH": f"{self.folder}:{os.environ['PATH']}", "LOWGEAR": LOWGEAR,
                       "STEPS": str(self.folder / "steps"), "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_ID": "7",
                       "MASTER_PORT": str(free_ports(6)), **variables}
        return subprocess.run(["bash", SCRIPT, *words], cwd=self.folder, env=environment, capture_output=True, text=True)

    def test_samples_each_number_of_nodes_and_gpus(self):
        result = self.run_script("samples", "--device", "cpu", "--max-bytes", "1024", "--repeats", "2", "--collectives",
                                 "allreduce,p2p", SLURM_JOB_NUM_NODES="2", SLURM_GPUS_PER_NODE="h100:2")
        self.assertEqual(result.returncode, 0, result.stderr)
        grid = [(1, 2), (2, 1), (2, 2)]
        steps = (self.folder / "steps").read_text().splitlines()
        self.assertEqual([step.split(" --nodelist ")[0] for step in steps],
                         [f"--nodes {nodes} --ntasks-per-node {gpus} --gpus-per-node {gpus}" for nodes, gpus in grid])
        self.assertEqual([step.split()[7] for step in steps],
                         ["127.0.0.1", *["127.0.0.1,node1"] * 2])
        for nodes, gpus in grid:
            for name in ("allreduce", "p2p"):
                with open(self.folder / f"samples/gloo/CPU_{name}_bf16_{nodes}_{gpus}.csv", newline="") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual([(row["nodes"], row["GPUsPerNode"]) for row in rows], [(str(nodes), str(gpus))])

    def test_ends_with_the_first_step_that_fails(self):
        result = self.run_script("samples", "--collectives", "allredcue", SLURM_JOB_NUM_NODES="2", SLURM_GPUS_PER_NODE="2")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("did you mean allreduce?", result.stderr)
        self.assertEqual(len((self.folder / "steps").read_text().splitlines()), 1)

    def test_says_how_it_is_used(self):
        for words, variables, message in (
            ([], {}, "give the folder of the samples"),
            (["samples"], {}, "this runs in a job of Slurm"),
            (["samples"], {"SLURM_JOB_NUM_NODES": "2"}, "give sbatch --gpus-per-node"),
        ):
            result = self.run_script(*words, **variables)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()
