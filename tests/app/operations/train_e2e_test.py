"""`lowgear train` and its ranks as they are run: on one machine, under other launchers, with wrong input, and ended."""

import http.server
import json
import os
import re
import signal
import socket
import struct
import threading
import time
import unittest
from pathlib import Path

from program_test_base import ProgramTest

LOWGEAR = os.environ["LOWGEAR_BINARY"]
TRAINER = os.environ["LOWGEAR_TRAINER"]
CONFIG = """
model: {vocabulary: 256, hidden: 32, layers: 4, heads: 4, kv_heads: 2, intermediate: 64, max_positions: 64}
data: {synthetic_tokens: 100000, sequence_length: 32}
microbatches: 4
microbatch_size: 2
optimizer: {learning_rate: 1e-2}
steps: 8
metrics: metrics.jsonl
"""
ENDLESS = ["--steps", "1000000"]


def children_of(pid):
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(stat.parent.name))
    return sorted(children)


def rank_of(pid):
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"RANK="):
            return int(entry[5:])
    return None


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TrainTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.config = self.folder / "train.yaml"
        self.config.write_text(CONFIG)

    def start(self, *arguments, program=(LOWGEAR, "train"), environment=None):
        return self.popen([*program, self.config, *arguments], environment)

    def end_of(self, process):
        out, err = process.communicate(timeout=self.patience_s)
        return process.returncode, out, err

    def train(self, *arguments, **options):
        return self.end_of(self.start(*arguments, **options))

    def metrics(self):
        """Whole lines so far."""
        file = self.folder / "metrics.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def start_endless(self, *arguments):
        process = self.start(*ENDLESS, *arguments)
        self.wait_until(lambda: len(self.metrics()) >= 2 or process.poll() is not None, "it trains")
        self.assertIsNone(process.poll(), "it ended")
        return process

    def refused(self, *arguments, **options):
        """The one line that it says on bad input."""
        code, out, err = self.train(*arguments, **options)
        self.assertEqual(code, 2, err)
        self.assertEqual(re.sub(r"^starting .*\n", "", out), "")  # where the ranks refuse it
        self.assertEqual(err.count("\n"), 1, err)
        self.assertFalse((self.folder / "metrics.jsonl").exists())
        return err.strip().removeprefix("lowgear: ").removeprefix("error: ")


class Layouts(TrainTest):
    def losses(self, *settings):
        code, _, err = self.train(*(word for setting in settings for word in ("--set", setting)))
        self.assertEqual((code, err), (0, ""))
        metrics = self.metrics()
        self.assertEqual([line["step"] for line in metrics], list(range(8)))
        return [line["loss"] for line in metrics]

    def test_every_layout_learns_the_same(self):
        alone = self.losses()
        self.assertLess(alone[-1], alone[0] - 0.5)
        self.assertEqual(self.losses("parallel.pp=2"), alone)
        for settings in (
            ("parallel.dp=2", "microbatches=2"),
            ("parallel.tp=2",),
            ("parallel.pp=2", "parallel.chunks=2", "schedule=interleaved", "parallel.dp=2", "microbatches=2"),
        ):
            with self.subTest(settings):
                for loss, expected in zip(self.losses(*settings), alone):
                    self.assertAlmostEqual(loss, expected, delta=1e-3)

    def test_a_tied_embedding_is_where_the_schedule_has_the_first_and_the_last_stage(self):
        rows = [
            ",".join(f"{stage}{unit}{microbatch}" for unit in "FB" for microbatch in range(4)) for stage in (2, 0, 1)
        ]
        (self.folder / "turned.csv").write_text("\n".join(rows) + "\n")
        tied = ("model.tied_embeddings=true", "parallel.pp=3")
        self.assertEqual(self.losses(*tied, "schedule=turned.csv"), self.losses(*tied, "schedule=gpipe"))


class Output(TrainTest):
    def test_metrics_tell_every_step(self):
        code, out, err = self.train("--set", "optimizer.warmup_steps=4")
        self.assertEqual((code, err), (0, ""))
        first, *_, last = self.metrics()
        self.assertEqual(
            set(first), {"step", "loss", "gradient_norm", "learning_rate", "time_s", "tokens"} | (set(first) & {"mfu"})
        )
        self.assertEqual((first["step"], last["step"]), (0, 7))
        self.assertEqual(first["tokens"], 4 * 2 * 32)
        self.assertEqual(
            out.splitlines()[0], "starting 1 ranks (pp 1, dp 1, tp 1), 1f1b with 4 microbatches, 8 steps of 256 tokens"
        )
        self.assertGreater(first["time_s"], 0)
        self.assertGreater(first["gradient_norm"], 0)
        self.assertLess(first["learning_rate"], 1e-2)
        self.assertIn("step 8/8", out)
        self.assertIn(f"loss {first['loss']:.4f} -> {last['loss']:.4f}", out)

    def test_json_is_one_object(self):
        code, out, err = self.train("--json", "--set", "parallel.pp=2")
        self.assertEqual((code, err), (0, ""))
        summary = json.loads(out)
        self.assertEqual(summary["steps"], 8)
        self.assertEqual(summary["last_loss"], self.metrics()[-1]["loss"])
        self.assertEqual(summary["energy"], "none")
        self.assertFalse(summary["invalid"])
        self.assertGreater(summary["tokens_per_s"], 0)

    def test_dry_run_starts_nothing(self):
        code, out, err = self.train("--dry-run", "--set", "parallel.pp=2", "--set", "parallel.dp=2", "--steps", "5")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(
            out,
            "would start 4 ranks (pp 2, dp 2, tp 1), 1f1b with 4 microbatches, 5 steps of 512 tokens\n",
        )
        code, out, err = self.train("--dry-run", "--json", "--schedule", "gpipe")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual((json.loads(out)["ranks"], json.loads(out)["schedule"]), (1, "gpipe"))
        self.assertFalse((self.folder / "metrics.jsonl").exists())

    def test_dry_run_writes_nothing(self):
        outputs = ("checkpoint.folder=new/checkpoints", "export=out", "energy.recording=rec")
        before = sorted(self.folder.rglob("*"))
        code, _, err = self.train("--dry-run", *(word for output in outputs for word in ("--set", output)))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_tokens_without_header_in_several_files(self):
        text = [token % 200 for token in range(5000)]
        whole = self.folder / "whole.bin"
        whole.write_bytes(struct.pack("<iii", 20240520, 1, 5000).ljust(1024, b"\0") + struct.pack("<5000H", *text))
        (self.folder / "1.bin").write_bytes(struct.pack("<1234H", *text[:1234]))
        (self.folder / "2.bin").write_bytes(struct.pack("<3766H", *text[1234:]))
        losses = []
        for data in ("{tokens: whole.bin", "{tokens: [1.bin, 2.bin], token_type: uint16"):
            code, _, err = self.train("--set", f"data={data}, sequence_length: 32}}", "--set", "parallel.pp=2")
            self.assertEqual((code, err), (0, ""))
            losses.append([line["loss"] for line in self.metrics()])
        self.assertEqual(len(losses[0]), 8)
        self.assertEqual(losses[0], losses[1])

    def test_options_stand_before_the_file_and_paths_where_they_are_given(self):
        (self.folder / "sub").mkdir()
        self.config = self.config.rename(self.folder / "sub" / "train.yaml")
        code, _, err = self.train("--steps", "3", "--metrics", "a: b #c.jsonl")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len((self.folder / "a: b #c.jsonl").read_text().splitlines()), 3)
        self.assertFalse((self.folder / "sub" / "metrics.jsonl").exists())

    def test_a_schedule_of_a_file(self):
        (self.folder / "mine.csv").write_text("0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n")
        code, _, err = self.train("--set", "parallel.pp=2", "--schedule", "mine.csv")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(self.metrics()), 8)


class Server(TrainTest):
    def setUp(self):
        super().setUp()
        self.address = f"http://127.0.0.1:{unused_port()}"  # nothing listens there

    def test_that_is_not_there_is_said_at_once_and_in_the_end_and_counted(self):
        code, out, err = self.train("--server", self.address, "--set", "parallel.pp=2", "--json")
        self.assertEqual(code, 0, err)
        problem = f"{self.address}: cannot be reached: Connection refused"
        self.assertIn(f"no server: {problem}; training continues without plans", err)
        self.assertIn(f"8 of 8 steps were done with up to 2 of 2 ranks without the server: {problem}", err)
        self.assertLess(err.index("no server"), err.index("8 of 8 steps"))
        self.assertEqual(json.loads(out)["steps_without_server"], 8)
        self.assertEqual([step["ranks_without_server"] for step in self.metrics()], [2] * 8)

    def test_that_is_required_and_not_there_fails_the_job_before_its_first_step(self):
        code, _, err = self.train("--server", self.address, "--require-server")
        self.assertEqual(code, 1, err)
        self.assertIn(f"{self.address}: cannot be reached: Connection refused; mend that, or train without", err)
        self.assertEqual(self.metrics(), [])

    def serve(self):
        """Starts a server that takes every rank and never has a plan; returns what ends it."""
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                time.sleep(0.2)  # as a server that waits for a plan
                self.answer(204)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("/finish"):
                    finished.append(json.loads(body))
                if ended.is_set():
                    self.close_connection = True
                    return
                self.answer(200, b'{"job": "j-1", "created": true, "state": "registering", "rank_key": "k"}')

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a rank has gone, as it may

        ended, finished = threading.Event(), []
        self.finished = finished
        server = Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()

        def end():
            if not ended.is_set():
                ended.set()
                server.shutdown()
                server.server_close()

        self.addCleanup(end)
        return end

    def test_that_is_required_and_there_is_no_news(self):
        self.serve()
        token = self.folder / "train.token"
        token.write_text("secret")
        token.chmod(0o644)
        code, out, err = self.train("--server", self.address, "--require-server", "--set", "parallel.pp=2", "--json", "--set",
                                    f"server.token_file={token}")
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("train.token: others may read it (mode 0644); chmod 600 "), 1, "not by each rank")
        self.assertNotIn("no server", err)
        self.assertRegex(err, r"no agent answers on this machine, so clocks stay as they are here: .*lowgear agent init")
        self.assertIn("no plan was followed in 8 iterations: ", err)
        self.assertEqual(json.loads(out)["steps_without_server"], 0)
        self.assertEqual([step["ranks_without_server"] for step in self.metrics()], [0] * 8)

    def test_is_told_of_a_rank_that_was_killed(self):
        self.serve()
        process = self.start_endless("--server", self.address, "--require-server", "--set", "parallel.pp=2")
        os.kill(next(pid for pid in children_of(process.pid) if rank_of(pid) == 1), signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1, err)
        failures = {end["rank"]: end["failure"] for end in self.finished}
        self.assertEqual(failures[1], "no word of it; rank 1 was killed by signal 9 (Killed)")
        self.assertEqual(sorted(failures), [0, 1])

    def test_that_goes_away_is_said_and_counted_from_then_on(self):
        end = self.serve()
        process = self.start_endless("--server", self.address, "--require-server", "--json")
        end()
        self.wait_until(lambda: self.metrics()[-1]["ranks_without_server"] == 1, "the loss is counted")
        process.send_signal(signal.SIGINT)
        _, out, err = self.end_of(process)
        self.assertIn(f"no server: {self.address}", err)
        without = sum(step["ranks_without_server"] for step in self.metrics())
        steps = len(self.metrics())
        self.assertLess(without, steps)
        self.assertEqual(json.loads(out)["steps_without_server"], without)
        self.assertIn(f"{without} of {steps} steps were done with up to 1 of 1 ranks without the server", err)

    def test_that_is_required_has_to_be_named(self):
        self.assertIn("add --server ADDRESS", self.refused("--require-server"))

    def test_is_not_spoken_of_by_a_job_without_one(self):
        code, out, err = self.train("--json")
        self.assertEqual(code, 0, err)
        self.assertNotIn("server", err)
        self.assertNotIn("steps_without_server", json.loads(out))


class Ends(TrainTest):
    def test_a_rank_that_is_killed_ends_the_job(self):
        process = self.start_endless("--set", "parallel.pp=2", "--set", "parallel.dp=2")
        ranks = {rank_of(pid): pid for pid in children_of(process.pid)}
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        os.kill(ranks[2], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertIn("error: rank 2 was killed by signal 9 (Killed)", err.splitlines()[-1])
        for pid in ranks.values():
            self.assertFalse(Path(f"/proc/{pid}").exists())

    def test_a_rank_that_is_killed_before_the_first_step_ends_the_job(self):
        process = self.start(*ENDLESS, "--set", "parallel.pp=2")
        self.wait_until(lambda: len(children_of(process.pid)) == 2, "ranks are there")
        ranks = children_of(process.pid)
        os.kill(ranks[1], signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertIn("was killed by signal 9", err.splitlines()[-1])

    def test_ctrl_c_ends_after_a_step(self):
        process = self.start_endless("--set", "parallel.pp=2")
        os.kill(process.pid, signal.SIGINT)
        code, out, err = self.end_of(process)
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn("stopping after this step", err)
        self.assertNotIn("error", err)
        steps = len(self.metrics())
        self.assertTrue((self.folder / "metrics.jsonl").read_text().endswith("}\n"))
        self.assertIn(f"{steps} steps: loss", out)

    def test_a_rank_that_another_process_ends_fails_the_job_after_a_checkpoint(self):
        process = self.start_endless("--set", "parallel.pp=2", "--set", "checkpoint.folder=ckpt")
        os.kill(children_of(process.pid)[1], signal.SIGTERM)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1)
        self.assertRegex(err.splitlines()[-1], r"rank [01] ended with 143$")
        self.assertEqual(len(list(self.folder.glob("ckpt/step-*/checkpoint.json"))), 1)

    def test_ended_early_without_checkpoints_it_says_that_nothing_was_saved(self):
        process = self.start_endless("--set", "export=out")
        process.terminate()
        code, out, err = self.end_of(process)
        self.assertEqual(code, -signal.SIGTERM)
        self.assertIn("the export is written when all steps are done", err)
        self.assertIn("nothing was saved: there is no checkpoint.folder", err)
        self.assertFalse((self.folder / "out").exists())

    def test_ended_early_with_checkpoints_it_does_not(self):
        process = self.start_endless("--set", "export=out", "--set", "checkpoint.folder=ckpt")
        process.terminate()
        code, out, err = self.end_of(process)
        self.assertEqual(code, -signal.SIGTERM)
        self.assertNotIn("saved", err)
        self.assertEqual(len(list(self.folder.glob("ckpt/step-*/checkpoint.json"))), 1)

    def test_the_ranks_end_with_their_launcher(self):
        process = self.start_endless("--set", "parallel.pp=2")
        ranks = children_of(process.pid)
        process.kill()
        process.wait()
        self.wait_until(lambda: not any(pid in children_of(1) or self.lives(pid) for pid in ranks), "ranks have ended")

    @staticmethod
    def lives(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def test_nothing_stays_in_the_temporary_folder(self):
        scratch = self.folder / "scratch"
        scratch.mkdir()
        code, _, _ = self.train("--set", "parallel.pp=2", environment={"TMPDIR": str(scratch)})
        self.assertEqual(code, 0)
        self.assertEqual(list(scratch.iterdir()), [])


class OtherLaunchers(TrainTest):
    SETTINGS = ("--set", "parallel.pp=2")

    def start_both(self, variables_of_rank, program, *arguments):
        """Starts both ranks as another launcher would."""
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
        return [
            self.start(*self.SETTINGS, *arguments, program=program, environment={**meeting, **variables_of_rank(rank)})
            for rank in range(2)
        ]

    def meet(self, variables_of_rank, program):
        ranks = self.start_both(variables_of_rank, program)
        ends = [self.end_of(rank) for rank in ranks]
        self.assertEqual([(code, err) for code, _, err in ends], [(0, ""), (0, "")])
        self.assertEqual(len(self.metrics()), 8)
        self.assertIn("8 steps: loss", ends[0][1])
        self.assertEqual(ends[1][1], "")

    @staticmethod
    def as_torchrun(rank):
        return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}

    def test_torchrun(self):
        self.meet(self.as_torchrun, (TRAINER,))

    def test_ended_early_every_rank_says_so_by_its_status(self):
        for asked in (0, 1), (1,):
            with self.subTest(asked):
                endless = (*ENDLESS, "--set", "checkpoint.folder=ckpt")
                ranks = self.start_both(self.as_torchrun, (LOWGEAR, "train"), *endless)
                before = len(self.metrics())
                self.wait_until(lambda: len(self.metrics()) > before, "it trains")
                for rank in asked:
                    ranks[rank].terminate()
                self.assertEqual([self.end_of(rank)[0] for rank in ranks], [128 + signal.SIGTERM] * 2)
                newest = max(int(path.name[5:]) for path in self.folder.glob("ckpt/step-*"))
                self.assertEqual(newest, len(self.metrics()))

    def test_slurm(self):
        self.meet(
            lambda rank: {
                "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"
            },
            (LOWGEAR, "train"),
        )

    def test_open_mpi(self):
        self.meet(
            lambda rank: {
                "OMPI_COMM_WORLD_RANK": str(rank),
                "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
                "OMPI_COMM_WORLD_SIZE": "2",
            },
            (LOWGEAR, "train"),
        )

    def test_a_batch_script_of_slurm_starts_all_ranks(self):
        code, _, err = self.train(*self.SETTINGS, environment={"SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
        self.assertEqual((code, err), (0, ""))

    def test_other_sizes_are_refused(self):
        message = self.refused(*self.SETTINGS, environment={"RANK": "0", "WORLD_SIZE": "3"})
        self.assertEqual(message, f"{self.config}: parallel: pp x dp x tp is 2, and the job has 3 ranks")

    def test_ranks_outside_the_world_are_refused(self):
        self.assertIn("RANK=2 is not below WORLD_SIZE=2", self.refused(environment={"RANK": "2", "WORLD_SIZE": "2"}))
        self.assertIn("WORLD_SIZE=two", self.refused(environment={"RANK": "0", "WORLD_SIZE": "two"}))

    def test_a_rank_of_no_job_is_refused(self):
        message = "RANK=1 is set and WORLD_SIZE is not: set both, or unset RANK"
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
        for program in (LOWGEAR, "train"), (TRAINER,):
            self.assertEqual(self.refused(program=program, environment={"RANK": "1", **meeting}), message)

    def test_one_of_several_nodes_does_not_train_the_whole_job(self):
        nodes = {"NNODES": "2", "NPROC_PER_NODE": "1", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1"}
        message = self.refused(*self.SETTINGS, environment=nodes)
        self.assertIn("NNODES=2: the job has 2 nodes, and all 2 ranks would be started on this node", message)
        self.assertIn("torchrun --no-python", message)
        code, _, err = self.train(*self.SETTINGS, environment={**nodes, "NNODES": "1", "NPROC_PER_NODE": "2",
                                                               "NODE_RANK": "0"})
        self.assertEqual((code, err), (0, ""))

    def test_a_job_that_does_not_know_where_to_meet_says_so(self):
        two = {"RANK": "0", "WORLD_SIZE": "2"}
        self.assertIn("set MASTER_ADDR", self.refused(*self.SETTINGS, environment=two))
        for port in ("0", "65536", "http"):
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            self.assertIn("MASTER_PORT", self.refused(*self.SETTINGS, environment={**two, **meeting}))


class AnotherRelease(TrainTest):
    def test_of_the_program_of_ranks_is_refused(self):
        code, _, err = self.end_of(self.start(program=(TRAINER,), environment={"LOWGEAR_LAUNCHER_RELEASE": "999.0.0"}))
        self.assertEqual(code, 2, err)
        self.assertIn("lowgear is 999.0.0 and the program of its ranks", err)

    def test_is_not_what_a_launcher_within_a_launcher_says(self):
        code, _, err = self.train(environment={"LOWGEAR_LAUNCHER_RELEASE": "999.0.0"})
        self.assertEqual(code, 0, err)


class BadInput(TrainTest):
    def refused_with(self, *settings):
        return self.refused(*(word for setting in settings for word in ("--set", setting)))

    def test_settings(self):
        self.config.write_text(CONFIG.replace("steps: 8", "stepz: 8"))
        self.assertEqual(self.refused(), f'{self.config}:7:1: "stepz" is not a setting; did you mean steps?')
        self.config.write_text("model: [\n")
        self.assertIn(f"{self.config}:", self.refused())
        self.config.write_text("model: &m {a: *m}\n")
        self.assertIn("aliases are not supported", self.refused())
        self.config.unlink()
        self.assertIn(str(self.config), self.refused())

    def test_models_that_cannot_be_divided(self):
        self.assertEqual(
            self.refused_with("parallel.tp=3"),
            "tp: 4 attention heads cannot be split evenly among 3 ranks; choose a tp that divides 4",
        )
        self.assertIn("2 key/value heads", self.refused_with("parallel.tp=4"))
        self.assertIn("5 stages are more than the model's 4 layers", self.refused_with("parallel.pp=5"))
        self.assertIn("custom:0,1,3", self.refused_with("parallel.pp=2", "partition=custom:0,1,3"))

    def test_sequences_longer_than_the_positions(self):
        self.assertIn("the model has 64 positions", self.refused_with("data.sequence_length=65"))

    def test_schedules(self):
        file = self.folder / "mine.csv"
        hangs = (
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"
        )
        file.write_text(hangs)
        two = ("--set", "parallel.pp=2", "--set", "microbatches=2", "--schedule", "mine.csv")
        self.assertIn("rank 0 waits at step 3 (0SEND_F1) for rank 1", self.refused(*two))
        file.write_text("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n")
        self.assertIn("has 3 ranks and 2 microbatches, and the configuration 2 and 2", self.refused(*two))
        file.write_text("0F0,0F1,0B0,0B1\n1F0,1X1\n")
        self.assertIn("mine.csv:2:5", self.refused(*two))
        self.assertIn("1f1b", self.refused("--schedule", "1f2b"))

    def test_tokens_outside_the_vocabulary_are_reported_once(self):
        tokens = [300 if token % 3 == 0 else token % 200 for token in range(5000)]
        header = struct.pack("<iii", 20240520, 1, len(tokens)).ljust(1024, b"\0")
        (self.folder / "tokens.bin").write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))
        arguments = ("--set", "data={tokens: tokens.bin, sequence_length: 32}", "--set", "parallel.dp=2")
        code, out, err = self.train(*arguments)
        self.assertEqual(code, 2, err)
        self.assertRegex(out, r"\Astarting 2 ranks .* of 512 tokens\n\Z")
        self.assertIn("300", err.splitlines()[-1])
        self.assertIn("tokens.bin", err.splitlines()[-1])
        self.assertLessEqual(err.count("300"), 2, err)

    def test_files_that_are_missing(self):
        data = "data={tokens: absent.bin, sequence_length: 32}"
        self.assertIn("absent.bin", self.refused_with(data, "parallel.pp=2"))
        self.assertIn("absent.json", self.refused("--plan", "absent.json", "--set", "parallel.pp=2"))

    def test_an_option_is_refused_as_the_setting_that_it_is(self):
        self.assertRegex(self.refused("--server", "foo"), r'^setting "server\.address=.*not the address of a server')

    def test_inputs_are_looked_at_before_ranks_start(self):
        for setting, message in (
            ("data={tokens: absent.bin, sequence_length: 32}", "absent.bin: cannot be read"),
            ("data.synthetic_tokens=5", "synthetic text: 5 tokens are too few"),
            ("model.vocabulary=200", "model.vocabulary: synthetic text has 256 tokens"),
            ("model.weights=absent", "absent: cannot be read"),
            ("checkpoint.folder=/proc/y", "/proc/y: the kernel's virtual file systems"),
            ("export=/proc/y", "/proc/y: the kernel's virtual file systems"),
            ("metrics=absent/metrics.jsonl", "there is no folder"),
            ("server={address: 'http://127.0.0.1:1', token_file: absent.token}", "absent.token: cannot be read"),
        ):
            for mode in ((), ("--dry-run",)):
                with self.subTest(setting, mode=mode):
                    self.assertIn(message, self.refused(*mode, "--set", setting, "--set", "parallel.pp=2"))

    def test_a_dry_run_asks_the_trainer_for_its_device(self):
        self.assertIn("device: cuda needs a build", self.refused("--dry-run", "--set", "device=cuda"))

    def test_a_model_larger_than_memory_is_one_line(self):
        huge = ("--set", "model.hidden=4194304", "--set", "model.intermediate=4194304", "--set", "model.vocabulary=16777216")
        code, _, err = self.train(*huge)
        self.assertEqual(code, 1)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("rank 0", err)

    def test_a_loss_that_is_no_number_stops_the_job(self):
        code, _, err = self.train(
            "--set", "optimizer={learning_rate: 1000, clip_norm: 0}", "--set", "parallel.pp=2", "--steps", "200"
        )
        self.assertEqual(code, 1, err)
        self.assertIn("training has diverged", err.splitlines()[-1])
        self.assertLess(len(self.metrics()), 200)

    def test_tokens_of_another_type_are_not_trained_on(self):
        """As preprocessors of Megatron leave them: int32, with an index that says so."""
        tokens = [(7919 * token) % 199 for token in range(1000)]
        (self.folder / "text.bin").write_bytes(struct.pack("<1000i", *tokens))
        data = "data={tokens: text.bin, token_type: uint16, sequence_length: 32}"
        for mode in ((), ("--dry-run",)):
            self.assertIn("they are halves of wider numbers", self.refused(*mode, "--set", data))
        (self.folder / "text.idx").write_bytes(
            b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, 1000, 0, 0, 1))
        self.assertIn("says that the tokens are uint32, not uint16", self.refused("--set", data))
        code, _, err = self.train("--set", "data={tokens: text.bin, sequence_length: 32}")
        self.assertEqual((code, err), (0, ""))

    def test_weights_that_are_no_numbers_are_named(self):
        code, _, err = self.train("--set", "export=out")
        self.assertEqual(code, 0, err)
        weights = self.folder / "out" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-4096] + b"\0\0\xc0\x7f" * 1024)
        code, _, err = self.train("--set", "model={config: out/config.json, weights: out}")
        self.assertEqual(code, 1, err)
        self.assertIn("the weights " + str(self.folder / "out") + " hold NaN or infinity (first in ", err)

    def test_a_configuration_of_eadt_is_translated_and_not_trained(self):
        self.config.write_text("training: {per_device_train_batch_size: 4, fp16: true}\nmps: {enabled: true}\n")
        for mode in ((), ("--dry-run",)):
            code, out, err = self.train(*mode)
            self.assertEqual(code, 2, err)
            self.assertIn("microbatch_size: 4  # training.per_device_train_batch_size", out)
            self.assertIn("type: fp16  # training.fp16", out)
            self.assertIn("mps.enabled: MPS saves energy", err)
            self.assertIn("lowgear train trains nothing", err)


if __name__ == "__main__":
    unittest.main()
