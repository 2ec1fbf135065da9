"""Trains each family from its config.json and weights, as transformers writes them, with a pipeline of two ranks, and
exports it: the export has the tensors that transformers has written."""

import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

LOWGEAR = os.environ["LOWGEAR_BINARY"]
FAMILIES = Path(os.environ["FAMILIES"])
SEQUENCE = 8
STEPS = 2

CONFIG = """
model: {{config: {folder}/config.json, weights: {folder}}}
data: {{tokens: tokens.bin, token_type: uint16, sequence_length: {sequence}{mask}}}
parallel: {{pp: 2}}
microbatches: 2
steps: {steps}
export: export
"""


def tensors_of(path):
    """Name and shape of each tensor."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: tensor["shape"] for name, tensor in header.items()}


class FamiliesTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        tokens = random.Random(1).choices(range(64), k=2000)
        (self.folder / "tokens.bin").write_bytes(struct.pack("<2000H", *tokens))
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def tearDown(self):
        shutil.rmtree(self.folder)

    def train(self, family):
        job = self.folder / "job.yaml"
        mask = ", mask_token: 3" if family == "bert" else ""
        job.write_text(CONFIG.format(folder=FAMILIES / family, sequence=SEQUENCE, mask=mask, steps=STEPS))
        return subprocess.run([LOWGEAR, "train", str(job), "--json"], capture_output=True, text=True,
                              env=self.environment, cwd=self.folder)

    def test_trains_and_exports(self):
        types = {}
        for path in sorted(FAMILIES.glob("*/config.json")):
            types.setdefault(json.loads(path.read_text())["model_type"], path.parent.name)
        self.assertEqual(len(types), 14)
        for family in types.values():
            with self.subTest(family):
                run = self.train(family)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertEqual(json.loads(run.stdout)["steps"], STEPS)
                exported = {}
                for file in (self.folder / "export").glob("*.safetensors"):
                    exported.update(tensors_of(file))
                self.assertEqual(exported, tensors_of(FAMILIES / family / "model.safetensors"))
                config = json.loads((self.folder / "export" / "config.json").read_text())
                published = json.loads((FAMILIES / family / "config.json").read_text())
                for member in ["model_type", "architectures"]:
                    self.assertEqual(config[member], published[member])


if __name__ == "__main__":
    unittest.main()
