"""`lowgear sample` and the program that measures, on the CPU: files, parts, going on after a kill, collectives, bad input."""

import csv
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from clean_environment import CLEAN

LOWGEAR = os.environ["LOWGEAR_BINARY"]
SAMPLER = os.environ["LOWGEAR_SAMPLER"]
TINY = ("--device cpu --hidden 64,128 --tp 1,2 --microbatch 1,2 --seq 16 --head-dim 32 --parameters 1000 "
        "--experts 4 --expert-width 32 --experts-per-token 2").split()
QUICK = [*TINY, "--repeats", "2"]
PUBLISHED = {
    "linear1": "mp,b,l,dim,F_dur(us),B_dur(us)",
    "layernorm": "b,l,dim,F_dur(us),B_dur(us)",
    "flash_atten": "mp,b,h,l,dim,F_dur(us),B_dur(us)",
    "softmax": "mp,b,h,l,F_dur(us),B_dur(us)",
    "parallel_cross_entropy_128": "mp,b,l,F_dur(us),B_dur(us)",
    "optimizer": "params,dur(us)",
    "moe": "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)",
    "gated_moe": "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)",
}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def shapes_of(path):
    """Every row's sizes: the columns before the first duration."""
    text = Path(path).read_text().splitlines()
    width = next(i for i, name in enumerate(text[0].split(",")) if name.endswith("dur(us)"))
    return [tuple(line.split(",")[:width]) for line in text[1:]]


def relative_v2(clock_mhz):
    return (0.4 + 0.6 * clock_mhz / 1980) ** 2


def curve_samples():
    """Of a GPU that draws 100 W and up to 10 W for each multiprocessor, and keeps within 700 W by its clock."""
    columns = ("sms,type,data,adds,reads,stream_sms,cached,begin_s,time_s,energy_j,energy_error_j,clock_mhz,"
               "lowest_clock_mhz,highest_clock_mhz,memory_clock_mhz,temperature_c,capped_s,thermal_s,limit_w,operations,"
               "bytes,cache_bytes")
    rows = [columns]
    for index, sms in enumerate([0, 0, 16, 32, 48, 56, *range(60, 132, 6)]):
        clock, power = 1981, 1000
        while power > 700:
            clock -= 1
            power = 70 + 10 * sms * clock / 1980 * relative_v2(clock) + 30 * clock / 1980 * relative_v2(clock)
        rows.append(f"{sms},fp8,numbers,0,0,0,0,{3 * index},2,{2 * power},0.5,{clock},{clock},{clock},3201,40,0,0,700,"
                    f"{sms * 8000 * clock * 2e6},0,0")
    return "\n".join(rows) + "\n"


class SampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lowgear-sample-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_sample(self, *words, program=(LOWGEAR, "sample"), environment=None):
        return subprocess.run([*program, *map(str, words)], env={**CLEAN, **(environment or {})}, cwd=self.folder,
                              capture_output=True, text=True)

    def sampled(self, *words, **options):
        result = self.run_sample(*words, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_every_operator_has_a_file_in_the_published_columns(self):
        result = json.loads(self.sampled("operators", "--out", "all", *QUICK, "--dtype", "fp32", "--json").stdout)
        self.assertTrue(result["complete"])
        self.assertEqual(result["device"], "CPU")
        self.assertEqual(len(result["files"]), 22)
        for file in result["files"]:
            rows = rows_of(self.folder / file["path"])
            self.assertEqual(len(rows), file["planned"], file["name"])
            self.assertEqual(file["rows"], file["new_rows"])
            for row in rows:
                for name, value in row.items():
                    if name.endswith("dur(us)"):
                        self.assertGreater(float(value), 0, file["name"])
                    if "energy" in name or "clock" in name:
                        self.assertEqual(value, "", "a CPU has neither")
        for name, columns in PUBLISHED.items():
            header = (self.folder / f"all/operator/CPU_{name}_fp32.csv").read_text().splitlines()[0]
            self.assertTrue(header.startswith(columns + ","), header)

    def test_estimates_take_sampled_experts(self):
        self.sampled("operators", "--out", "experts", *QUICK, "--operators", "experts")
        result = self.run_sample("--model", "mixtral-8x7b", "--gpu", "a100", "--gpus", "8", "--global-batch", "8", "--seq",
                                 "2048", "--operators", "experts", program=(LOWGEAR, "estimate"))
        self.assertIn("note: gated_experts: taken from samples of the whole layer", result.stdout, result.stderr)

    def test_parts_make_the_whole(self):
        choice = [*QUICK, "--operators", "linear1,norm"]
        whole = self.sampled("operators", "--out", "whole", *choice)
        self.assertTrue(whole.stdout.endswith(
            "\nNext: estimate a job with these samples: lowgear estimate --job JOB.yaml --operators whole\n"), whole.stdout)
        for part in (1, 2, 3):
            self.sampled("operators", "--out", "parts", *choice, "--part", f"{part}/3")
        for name in ("linear1", "layernorm", "RMSlayernorm"):
            parts = []
            for path in sorted((self.folder / "parts/operator").glob(f"CPU_{name}_bf16_part*of3.csv")):
                parts += shapes_of(path)
            whole = shapes_of(self.folder / f"whole/operator/CPU_{name}_bf16.csv")
            self.assertEqual(len(set(whole)), len(whole))
            self.assertCountEqual(parts, whole)

    def test_continues_after_the_last_whole_row_after_a_kill(self):
        words = ["operators", "--out", "killed", "--operators", "linear1,linear2,norm", *TINY, "--repeats", "20"]
        process = subprocess.Popen([SAMPLER, *words], env=CLEAN, cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        files = self.folder / "killed/operator"
        while sum(len(shapes_of(path)) for path in files.glob("*.csv") if path.read_text()) < 8:
            self.assertIsNone(process.poll(), "it was done before it could be killed")
            time.sleep(0.005)
        process.kill()
        process.wait()
        before = {path.name: path.read_text() for path in files.glob("*.csv")}
        # What a kill in the middle of a write, or a full disk, leaves.
        cut = files / "CPU_linear1_bf16.csv"
        cut.write_text(before[cut.name] + "1,1,16,6")
        result = json.loads(self.sampled(*words, "--json").stdout)
        self.assertTrue(result["complete"])
        for file in result["files"]:
            path = self.folder / file["path"]
            self.assertTrue(path.read_text().startswith(before[path.name]), "rows that were there stay as they were")
            self.assertEqual(len(shapes_of(path)), file["planned"])
            self.assertEqual(len(set(shapes_of(path))), file["planned"])
        self.assertEqual(sum(file["new_rows"] for file in result["files"]),
                         sum(file["planned"] for file in result["files"]) -
                         sum(len(text.splitlines()) - 1 for text in before.values()))

    def test_a_signal_ends_it_after_a_row(self):
        process = subprocess.Popen([LOWGEAR, "sample", "operators", "--out", "ended", *TINY, "--repeats", "200"],
                                   env=CLEAN, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        files = self.folder / "ended/operator"
        while not any(len(path.read_text().splitlines()) > 1 for path in files.glob("*.csv")):
            self.assertIsNone(process.poll(), "it ended by itself")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn("stopping after this row", errors)
        self.assertIn("linear1", output)  # the summary
        for path in files.glob("*.csv"):
            self.assertTrue(path.read_text().endswith("\n"))

    def test_a_time_limit_ends_it_and_it_continues(self):
        words = ["operators", "--out", "limited", "--operators", "norm,residual", "--device", "cpu", "--hidden", "64,128",
                 "--microbatch", "1,2,4,8", "--seq", "16"]
        result = json.loads(self.sampled(*words, "--repeats", "60", "--time-limit", "1", "--json").stdout)
        self.assertFalse(result["complete"])
        rows = [file["rows"] for file in result["files"]]
        self.assertLessEqual(max(rows) - min(rows), 1, "all files grow together")
        again = json.loads(self.sampled(*words, "--repeats", "1", "--json").stdout)
        self.assertTrue(again["complete"])
        for first, second in zip(result["files"], again["files"]):
            self.assertEqual(second["new_rows"], second["planned"] - first["rows"])

    def test_collectives_of_several_ranks(self):
        words = ["collectives", "--ranks", 3, "--device", "cpu", "--out", "ranks", "--max-bytes", 4096, "--repeats", 3]
        result = json.loads(self.sampled(*words, "--json").stdout)
        self.assertEqual([file["name"] for file in result["files"]], ["allreduce", "allgather", "reduce_scatter", "p2p"])
        for file in result["files"]:
            rows = rows_of(self.folder / file["path"])
            self.assertEqual([(row["nodes"], row["GPUsPerNode"]) for row in rows], [("1", "3")] * 3)
            shared = file["name"] in ("allgather", "reduce_scatter")
            self.assertEqual([int(row["shape"]) for row in rows],
                             [size // 2 // (3 if shared else 1) for size in (1024, 2048, 4096)])
            self.assertTrue(all(float(row["dur(us)"]) > 0 for row in rows))
        again = json.loads(self.sampled(*words, "--json").stdout)
        self.assertEqual([file["new_rows"] for file in again["files"]], [0, 0, 0, 0])

    def test_runs_under_another_launcher(self):
        ranks = [
            subprocess.Popen([LOWGEAR, "sample", "collectives", "--device", "cpu", "--out", "torchrun", "--collectives",
                              "allreduce", "--max-bytes", "1024", "--repeats", "2"], cwd=self.folder,
                             env={**CLEAN, "RANK": str(rank), "LOCAL_RANK": str(rank % 2), "WORLD_SIZE": "4",
                                  "LOWGEAR_RENDEZVOUS": str(self.folder / "meet")})
            for rank in range(4)
        ]
        self.assertEqual([rank.wait() for rank in ranks], [0, 0, 0, 0])
        rows = rows_of(self.folder / "torchrun/gloo/CPU_allreduce_bf16_2_2.csv")
        self.assertEqual([(row["nodes"], row["GPUsPerNode"]) for row in rows], [("2", "2")])

    def test_two_processes_do_not_write_one_file(self):
        words = ["operators", "--out", "twice", "--operators", "linear1", *TINY, "--repeats", "1000"]
        first = subprocess.Popen([SAMPLER, *words], env=CLEAN, cwd=self.folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        path = self.folder / "twice/operator/CPU_linear1_bf16.csv"
        while not path.exists() or not path.read_text():
            self.assertIsNone(first.poll(), "it ended by itself")
            time.sleep(0.005)
        first.send_signal(signal.SIGSTOP)  # it stays what it is while the other looks
        second = self.run_sample(*words)
        self.assertEqual(second.returncode, 2)
        self.assertIn("another process writes it", second.stderr)

    def test_says_what_does_not_fit_into_memory(self):
        limited = ["bash", "-c", 'ulimit -v 3500000; exec "$@"', "bash", SAMPLER]
        result = self.run_sample("operators", "--out", "large", "--operators", "optimizer", "--device", "cpu",
                                 "--parameters", "1000,1000000000", "--repeats", "1", "--json", program=limited)
        self.assertEqual(result.returncode, 0, result.stderr)
        file = json.loads(result.stdout)["files"][0]
        self.assertEqual((file["planned"], file["rows"], file["skipped"]), (2, 1, 1))
        self.assertIn("optimizer of params=1000000000 does not fit into memory and has no row", result.stderr)

    def test_refuses_rows_of_other_plans_and_other_machines(self):
        words = ["operators", "--out", "mixed", "--operators", "norm", *QUICK]
        self.sampled(*words)
        path = self.folder / "mixed/operator/CPU_layernorm_bf16.csv"
        before = path.read_text()
        other = self.run_sample(*["192,320" if word == "64,128" else word for word in words])
        self.assertEqual(other.returncode, 2)
        self.assertIn("CPU_layernorm_bf16.csv:2: is not a row of this plan", other.stderr)
        self.assertEqual(path.read_text(), before)
        record = self.folder / "mixed/sampling.json"
        document = json.loads(record.read_text())
        record.write_text(json.dumps({**document, "torch": "0.4"}))
        moved = self.run_sample(*words)
        self.assertEqual(moved.returncode, 2)
        self.assertIn('the samples here have torch "0.4"', moved.stderr)

    def test_samples_of_a_curve_are_fitted_into_a_gpu_file(self):
        folder = self.folder / "curve"
        folder.mkdir()
        (folder / "sampling.json").write_text(json.dumps({
            "format": "lowgear.sampling/1", "device": "NVIDIA H200", "driver": "580.1", "simulated": False,
            "begun": "2026-11-29", "limit_w": 700, "multiprocessors": 132, "lowest_clock_mhz": 345}))
        (folder / "curve.csv").write_text(curve_samples())
        fitted = json.loads(self.sampled("curve", "--out", "curve", "--fit", "--json").stdout)
        self.assertEqual((fitted["gpu"], fitted["samples"], fitted["left_out"]), ("NVIDIA H200", 18, []))
        self.assertLess(fitted["voltage"]["measured_from_mhz"], 1500)
        for point in fitted["voltage"]["points"]:
            if point["clock_mhz"] >= fitted["voltage"]["measured_from_mhz"]:
                self.assertAlmostEqual(point["relative_v2"], relative_v2(point["clock_mhz"]), delta=0.03)
        self.assertIn("Clock-energy curve of NVIDIA H200", (folder / "curve.html").read_text())
        result = self.run_sample("--model", "llama-3-8b", "--gpu", "h200", "--gpu-file", "curve/gpu.json", "--gpus",
                                 "8", "--global-batch", "8", "--seq", "1024", program=(LOWGEAR, "estimate"))
        self.assertEqual(result.returncode, 0, result.stderr)
        again = self.run_sample("curve", "--out", "curve")
        self.assertEqual(again.returncode, 2)
        self.assertIn("has samples of an earlier run", again.stderr)

    def test_bad_input_is_one_line_and_exit_2(self):
        for words, message in (
            (["operators"], "--out: give the folder"),
            (["kernels", "--out", "x"], "cannot be sampled"),
            (["operators", "--out", "x", "--operators", "linaer"], "did you mean linear?"),
            (["operators", "--out", "x", "--part", "3/2"], "--part"),
            (["operators", "--out", "x", "--ranks", "2"], "--ranks: can only be used with collectives"),
            (["collectives", "--out", "x", "--quick"], "--quick: can only be used with operators"),
            (["operators", "--out", "/dev/null", *QUICK], "/dev/null"),
            (["operators", "--out", "x", "--device", "cpu", "--hidden", "64", "--tp", "3"], "no sizes of the grid"),
            (["curve", "--out", "x", "--ranks", "2"], "--ranks: can only be used with collectives"),
            (["curve", "--out", "x", "--gpus", "0"], "--gpus: a curve is of one GPU"),
            (["operators", "--out", "x", "--device", "cuda"], "cuda needs a build with a libtorch that has CUDA"),
        ):
            result = self.run_sample(*words)
            self.assertEqual(result.returncode, 2, (words, result.stderr))
            self.assertIn(message, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
