"""The decisions of deploy/slurm, without Slurm: which GPUs, which words, what is believed of a user's files, and comments
that several nodes write at once."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy/slurm"))
from lowgear_slurm import account, agent, comment, job, options, plans, processes, records  # noqa: E402
from lowgear_slurm.agent import AgentError  # noqa: E402
from lowgear_slurm.allocation import Allocation, allocation, minor_numbers, visible_uuids  # noqa: E402


def gpu(index, mig=False, lease=None, state="untouched"):
    return {"index": index, "uuid": f"GPU-{index}", "pci_address": f"0000:0{index}:00.0", "mig_enabled": mig, "lease": lease,
            "clocks": {"state": state}, "reading": {"energy_j": 100.0 * index}, "healthy": True, "problem": None}


GPUS = [gpu(index) for index in range(4)]


class Allocations(unittest.TestCase):
    def test_numbers_are_indices_where_no_driver_has_device_files(self):
        self.assertEqual(allocation({"SLURM_JOB_GPUS": "1,3"}, GPUS, {}).uuids, ("GPU-1", "GPU-3"))

    def test_numbers_are_those_of_the_device_files(self):
        minors = {f"0000:0{index}:00.0": 3 - index for index in range(4)}
        self.assertEqual(allocation({"SLURM_JOB_GPUS": "0,1"}, GPUS, minors).uuids, ("GPU-3", "GPU-2"))

    def test_the_driver_says_the_numbers_of_device_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "0000:0A:00.0"
            path.mkdir()
            (path / "information").write_text("Model: \t\t NVIDIA H100\nDevice Minor: \t 5\n")
            self.assertEqual(minor_numbers(Path(folder)), {"0000:0a:00.0": 5})

    def test_a_job_without_gpus(self):
        for variables in ({}, {"SLURM_JOB_GPUS": ""}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}):
            self.assertEqual(allocation(variables, GPUS, {}), Allocation())

    def test_a_gpu_that_the_agent_does_not_have(self):
        self.assertIn("no GPU 7", allocation({"SLURM_JOB_GPUS": "0,7"}, GPUS, {}).problem)

    def test_parts_of_gpus_are_nobodys_alone(self):
        for variables in ({"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-6f5e"}, {"SLURM_JOB_GPUS": "MIG-6f5e"},
                          {"SLURM_JOB_GPUS": "0", "SLURM_SHARDS_ON_NODE": "2"},
                          {"SLURM_JOB_GPUS": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}):
            found = allocation(variables, GPUS, {})
            self.assertEqual(found.uuids, ())
            self.assertTrue(found.problem)

    def test_where_a_gpu_has_mig_numbers_name_no_gpu_and_uuids_do(self):
        mixed = [gpu(0, mig=True), gpu(1)]
        self.assertIn("MIG enabled", allocation({"SLURM_JOB_GPUS": "1"}, mixed, {}).problem)
        self.assertEqual(allocation({"SLURM_JOB_GPUS": "GPU-1"}, mixed, {}).uuids, ("GPU-1",))

    def test_the_visible_gpus_by_uuid(self):
        for visible, expected in (("2,3", "GPU-2,GPU-3"), ("0,1", "GPU-2,GPU-3"), ("0", None), ("GPU-2,GPU-3", None)):
            self.assertEqual(visible_uuids({"CUDA_VISIBLE_DEVICES": visible, "SLURM_STEP_GPUS": "2,3"}, GPUS, {}), expected)


class Options(unittest.TestCase):
    def test_words_of_lowgear_run(self):
        for text, words in {"off": [], "plan=/p,slowdown=2%": ["--plan", "/p", "--slowdown", "2"],
                            "server=http://s:1,record=r": ["--server", "http://s:1", "--record", "r"],
                            "search,slowdown=3": ["--search", "slowdown=3%"],
                            "search,points=power-limit": ["--search", "slowdown=0%", "--points", "power-limit"]}.items():
            self.assertEqual(options.run_options(text), words)

    def test_mistakes(self):
        for text in ("", "plan", "plan=", "plam=x", "search=1", "plan=a,plan=b", "plan=a,,record=b"):
            with self.assertRaises(options.OptionError, msg=text):
                options.run_options(text)

    def test_the_plugin_knows_the_same_names(self):
        source = (Path(__file__).resolve().parents[3] / "deploy/slurm/spank_lowgear.c").read_text()
        table = source[source.index("kNames[] = {"):source.index("};", source.index("kNames[] = {"))]
        names = {word.strip(' "=,\n') for word in table.partition("{")[2].split('"')[1::2]}
        self.assertEqual(names, set(options._OPTIONS) | {options.OFF})


class Records(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.enterContext(mock.patch.object(records, "FOLDER", self.folder / "run"))
        self.enterContext(mock.patch.object(records, "ACCOUNTS", self.folder / "accounts.jsonl"))

    def begin(self, **members):
        records.begin_job("7", os.getuid(), os.getgid(), {"energy_j": {"GPU-1": 50.0}, "problem": "", "time_s": 1.0, **members})

    def test_energy_from_prolog_to_now(self):
        self.begin()
        records.write_step("7", "0", "begin", {"energy_j": {"GPU-1": 60.0}, "planned_saving_pct": 12.5})
        records.write_step("7", "0", "end", {"energy_j": {"GPU-1": 90.0}})
        found = account.account("7", "node1", GPUS)
        self.assertEqual((found["energy_j"], found["steps"]), (50.0, {"0": {"energy_j": 30.0, "planned_saving_pct": 12.5}}))
        self.assertEqual(account.part(found)["planned_saving_pct"], "0:12.5")

    def test_a_counter_that_fell_stands_or_is_missing_gives_no_energy_and_the_reason(self):
        for begin_j, why in ((500.0, "fell"), (100.0, "stands still"), (None, "no energy at the begin")):
            self.begin(energy_j={"GPU-1": begin_j})
            found = account.account("7", "node1", GPUS)
            self.assertIsNone(found["energy_j"])
            self.assertRegex(found["problem"], f"GPU-1.* {why}")
        self.begin(energy_j={"GPU-1": 50.0})
        for gpus in ([], [{**gpu(1), "healthy": False}]):  # it is lost: an old reading is left
            lost = account.account("7", "node1", gpus)
            self.assertEqual((lost["energy_j"], lost["problem"]), (None, "GPU-1 reported no energy at the end"))

    def test_the_socket_is_that_of_the_nodes_agent(self):
        configuration = self.folder / "agent.yaml"
        self.assertEqual(agent.http_socket(configuration), "/run/lowgear/agent.sock")
        for line in ('  http_socket: "/run/other/agent.sock"  # ours', "  http_socket: /run/other/agent.sock",
                     "sockets: {lease_socket: /l, http_socket: '/run/other/agent.sock'}"):
            configuration.write_text(f'sockets:\n  # http_socket: "/no"\n{line}\n')
            self.assertEqual(agent.http_socket(configuration), "/run/other/agent.sock", line)

    def test_what_users_may_write_harms_nothing(self):
        self.begin()
        steps = self.folder / "run/7/steps"
        (steps / "0.begin").symlink_to("/etc/passwd")
        (steps / "1.begin").write_text("[" * 60000)
        (steps / "2.begin").write_text('{"energy_j": {"GPU-1": -5}}')
        (steps / "3.begin").write_text('{"energy_j": {"GPU-1": NaN}, "planned_saving_pct": true}')
        (steps / "4.begin").write_text("x" * 200_000)
        (steps / "../../x.begin").resolve().write_text("{}")
        (steps / "0 energy_j=0].begin").write_text("{}")
        os.mkfifo(steps / "5.begin")
        found = account.account("7", "node1", GPUS)["steps"]
        self.assertEqual(found, {name: {"energy_j": None, "planned_saving_pct": None} for name in ("2", "3")})

    def test_an_account_is_a_line(self):
        for restart in (0, 1):
            self.begin(restart=restart)
            records.append_account(account.account("7", "node1", GPUS))
        lines = [json.loads(line) for line in records.ACCOUNTS.read_text().splitlines()]
        self.assertEqual([account.part_name(line) for line in lines], ["node1", "node1.1"])

    def test_leases_that_outlive_the_job_are_ended_and_what_stays_changed_is_a_failure(self):
        variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURMD_NODENAME": "node1"}
        with mock.patch.multiple(job, NOTICE_S=0.02, RESTORE_PATIENCE_S=0.3, PAUSE_S=0.01, say=lambda *_: None):
            for after, status in ((gpu(1, state="restored"), 0), (gpu(1, state="failed"), 1), (gpu(1, lease=5), 1)):
                self.begin()
                ended = []
                with mock.patch.multiple(job.agent, gpus=lambda: [after] if ended else [gpu(1, lease=4)],
                                         end_lease=ended.append, age_s=lambda: 3600):
                    self.assertEqual(job.epilog(variables), status)
                self.assertEqual(ended[0], 4)

    def test_processes_may_come_back_to_an_agent_that_was_started_again(self):
        looks = iter([[gpu(1)], [gpu(1, lease=4)], [gpu(1, lease=4)], [gpu(1, state="restored")], [gpu(1, state="restored")]])
        ages_s, ended = iter([1, 3, 6, 7]), []
        self.begin()
        with mock.patch.multiple(job, NOTICE_S=0, PAUSE_S=0.01, say=lambda *_: None), \
                mock.patch.multiple(job.agent, gpus=lambda: next(looks), end_lease=ended.append, age_s=lambda: next(ages_s)):
            self.assertEqual(job.epilog({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURMD_NODENAME": "node1"}), 0)
        self.assertEqual(set(ended), {4})

    def test_processes_that_are_there_may_come_back_late(self):
        looks = iter([[gpu(1)], [gpu(1)], [gpu(1, lease=4)], [gpu(1, lease=4)], [gpu(1, state="restored")]])
        ages_s, ended = iter([6, 9, 21]), []
        self.begin()
        with mock.patch.multiple(job, NOTICE_S=0, PAUSE_S=0.01, say=lambda *_: None), \
                mock.patch.object(job.processes, "outlive", lambda name: name == "7"), \
                mock.patch.multiple(job.agent, gpus=lambda: next(looks), end_lease=ended.append, age_s=lambda: next(ages_s)):
            self.assertEqual(job.epilog({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURMD_NODENAME": "node1"}), 0)
        self.assertEqual(set(ended), {4})

    def test_a_process_is_of_a_job_by_its_environment(self):
        child = subprocess.Popen(["sleep", "600"], env={"SLURM_JOB_ID": "471147"})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        while not processes.outlive("471147"):  # until the child has its own environment
            time.sleep(0.01)
        self.assertFalse(processes.outlive("47114"))
        asks = "import sys; sys.path.insert(0, sys.argv[1]); from lowgear_slurm import processes; print(processes.outlive('471148'))"
        own = subprocess.run([sys.executable, "-c", asks, str(Path(job.__file__).resolve().parents[1])], text=True, check=True,
                             env={**os.environ, "SLURM_JOB_ID": "471148"}, capture_output=True)
        self.assertEqual(own.stdout.strip(), "False")  # what asks is none of them

    def test_no_agent_at_the_begin_is_no_failure_at_the_end(self):
        def refuse():
            raise AgentError("the agent does not respond")
        variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURMD_NODENAME": "node1", "SLURM_JOB_UID": str(os.getuid()),
                     "SLURM_JOB_GID": str(os.getgid())}
        with mock.patch.multiple(job, RESTORE_PATIENCE_S=0.1, PAUSE_S=0.01, say=lambda *_: None):
            with mock.patch.object(job.agent, "gpus", refuse):
                self.assertEqual((job.prolog(variables), job.epilog(variables)), (0, 0))
                self.begin()
                self.assertEqual(job.epilog(variables), 1, "GPUs may be changed")


    def test_the_agent_is_told_by_which_names_control_groups_have_the_job(self):
        variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1", "SLURMD_NODENAME": "node1", "SLURM_JOB_UID": str(os.getuid()),
                     "SLURM_JOB_GID": str(os.getgid())}
        asked = []
        with mock.patch.multiple(job, say=lambda *_: None), mock.patch.object(job.agent, "gpus", lambda: [gpu(1)]), \
                mock.patch.object(job.agent, "_ask", lambda *words: asked.append(words)):
            job.prolog(variables)
            job.prolog({**variables, "SLURM_JOB_SLUID": "s5K1KKYAYG5D00"})
        self.assertEqual([words[2] for words in asked], [
            {"uid": os.getuid(), "job": "7"}, {"uid": os.getuid(), "job": "7", "sluid": "s5K1KKYAYG5D00"}])


class Plans(unittest.TestCase):
    def test_the_saving_of_the_plan_that_ranks_choose(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "run.json").write_text('{"policies": [{"policy": "max", "energy_j": 200}]}')
            Path(folder, "plans.csv").write_text("plan,time_s,energy_j\n1,1.0,180\n2,1.02,150\n3,1.2,100\n")
            for slowdown, saving_pct in ((None, 10), ("2", 25), ("50", 50)):
                self.assertAlmostEqual(plans.planned_saving_pct(folder, slowdown), saving_pct)
            self.assertIsNone(plans.planned_saving_pct(folder, "much"))
        self.assertIsNone(plans.planned_saving_pct(folder, "2"))
        self.assertIsNone(plans.planned_saving_pct(None, None))


SCONTROL = """#!/bin/sh
# Keeps one comment in a file, and replaces it as slurmctld does.
if [ "$1" = show ]; then printf 'JobId=7\\n   Comment=%s\\n' "$(cat "$COMMENT")"; exit; fi
printf %s "${3#Comment=}" > "$COMMENT.$$" && mv "$COMMENT.$$" "$COMMENT"
"""


def _write(folder, node, nodes):
    os.environ["COMMENT"] = f"{folder}/comment"
    comment.write_part({"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": str(nodes)}, node,
                       {"energy_j": f"{len(node)}.0"})


class Comments(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "scontrol").write_text(SCONTROL)
        (self.folder / "scontrol").chmod(0o755)
        (self.folder / "comment").write_text("")

    def test_a_part_is_replaced_and_everything_else_stays(self):
        (self.folder / "comment").write_text("see lowgear[n1 energy_j=1] lowgear[n2 energy_j=2] ticket 5")
        _write(self.folder, "n1", 1)
        self.assertEqual((self.folder / "comment").read_text(), "see lowgear[n2 energy_j=2] ticket 5 lowgear[n1 energy_j=2.0]")

    def test_nodes_that_end_at_the_same_time(self):
        with mock.patch.object(comment, "TURNS", 50):
            context = multiprocessing.get_context("fork")
            nodes = [context.Process(target=_write, args=(self.folder, f"node{index}", 4)) for index in range(4)]
            for node in nodes:
                node.start()
            for node in nodes:
                node.join()
        self.assertEqual([node.exitcode for node in nodes], [0] * 4)
        text = (self.folder / "comment").read_text()
        self.assertTrue(all(comment.part_of(text, f"node{index}") for index in range(4)), text)

    def test_large_jobs_and_a_missing_scontrol_are_refused(self):
        with self.assertRaises(comment.CommentError):
            _write(self.folder, "n1", comment.MOST_NODES + 1)
        (self.folder / "scontrol").unlink()
        with mock.patch.object(comment, "FOLDERS", "/nowhere"), self.assertRaises(comment.CommentError):
            comment.write_part({"PATH": "/nowhere", "SLURM_JOB_ID": "7"}, "n1", {})


if __name__ == "__main__":
    unittest.main()
