"""Lengths from the rank that knows them to all ranks: by a store, without waiting."""

import json
import os
import sys
import threading
import types
import unittest
import unittest.mock
from pathlib import Path

import lowgear
from lowgear._lengths import amounts_of
from lowgear.adapters.job import Job, Place
from lowgear.adapters.lengths import Lengths, Use
from stand_ins import Observed

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from waiting import wait_until  # noqa: E402: the tests are no package

SHORT, LONG = [(10, 60), (20, 400)], [(30, 900), (40, 800)]


class Store:
    """A c10d store in this process, whose `get` of a key that is missing would hang."""

    def __init__(self):
        self.keys, self.lock, self.fails = {}, threading.Lock(), False

    def set(self, key, value):
        with self.lock:
            self.keys[key] = value.encode()

    def check(self, keys):
        if self.fails:
            raise RuntimeError("Connection reset by peer")
        with self.lock:
            return all(key in self.keys for key in keys)

    def get(self, key):
        with self.lock:
            return self.keys[key]

    def delete_key(self, key):
        with self.lock:
            return self.keys.pop(key, None) is not None


class Client:
    def __init__(self):
        self.told = []

    def tell_lengths(self, iteration, replica, amounts):
        self.told.append((iteration, replica, amounts))


class Exchange(unittest.TestCase):
    def setUp(self):
        self.store, self.said = Store(), []
        patch = unittest.mock.patch("lowgear.adapters.lengths.say", self.said.append)
        patch.start()
        self.addCleanup(patch.stop)

    def rank(self, pp_rank, dp_rank, pp=2, dp=2, tp_rank=0, tp=1, use=Use.PLAN, session=0):
        lengths = Lengths(
            Place(pp_rank, pp, dp_rank, dp, tp_rank, tp), Client(), lowgear.LowgearError, self.store, use, session)
        self.addCleanup(lengths.close)
        return lengths

    def assert_told(self, lengths, *expected):
        wait_until(lambda: set(map(repr, expected)) <= set(map(repr, lengths._client.told)), "the lengths are there")

    def test_every_rank_gets_those_of_all_replicas(self):
        ranks = [self.rank(pp, dp) for dp in range(2) for pp in range(2)]
        for lengths in ranks:
            lengths.tell(0, LONG if lengths._place.dp_rank else SHORT)
        for lengths in ranks:
            self.assert_told(lengths, (0, 0, SHORT), (0, 1, LONG))

    def test_only_the_first_rank_of_a_replica_tells(self):
        last, second_shard = self.rank(1, 0), self.rank(0, 0, tp_rank=1, tp=2)
        last.tell(0, SHORT)
        second_shard.tell(0, SHORT)
        self.assertEqual(self.store.keys, {})

    def test_the_first_rank_knows_which_replica_has_told_nothing(self):
        first = self.rank(0, 0, dp=3)
        self.rank(0, 2, dp=3).tell(0, LONG)
        first.tell(0, SHORT)
        self.assert_told(first, (0, 0, SHORT), (0, 2, LONG))
        self.assertNotIn("lowgear/lengths/0/0/all", self.store.keys)

    def test_others_ask_for_one_key_however_many_replicas_there_are(self):
        other = self.rank(1, 0, dp=64)
        other.close()
        other._requests = 0
        self.store.set("lowgear/lengths/0/0/all", json.dumps([SHORT] * 64))
        other._look()
        self.assertLessEqual(other._requests, 3)
        self.assertEqual(other._client.told[63], (0, 63, SHORT))

    def test_where_lengths_are_recorded_alone_one_rank_asks_whatever_the_size_of_the_job(self):
        first = self.rank(0, 0, pp=64, dp=2, tp=64, use=Use.RECORD)
        second = self.rank(0, 1, pp=64, dp=2, tp=64, use=Use.NONE)
        for iteration in range(4):  # in their course
            for lengths in (first, second):
                lengths.begins(iteration)
                lengths.tell(iteration, SHORT)
        self.assert_told(first, *((iteration, replica, SHORT) for iteration in range(4) for replica in range(2)))
        self.assertLess(first._pause_s(), 0.1)
        self.assertIsNone(second._pause_s())

    def test_lengths_of_an_iteration_that_has_begun_reach_no_planner(self):
        for use, expected in ((Use.PLAN, []), (Use.PLAN | Use.RECORD, [(0, 0, SHORT)])):
            lengths = Lengths(Place(0, 1), Client(), lowgear.LowgearError, None, use)
            lengths.begins(0)
            lengths.tell(0, SHORT)
            self.assertEqual(lengths._client.told, [])
            lengths.begins(1)
            lengths.close()
            self.assertEqual(lengths._client.told, expected)

    def test_sessions_of_a_process_have_keys_of_their_own(self):
        first = self.rank(0, 0, dp=1)
        for iteration in range(10):
            first.tell(iteration, SHORT)
            first.begins(iteration)
        first.tell(10, SHORT)
        first.close()
        self.assertIn("lowgear/lengths/0/10/all", self.store.keys)
        self.assertLessEqual({key.split("/")[3] for key in self.store.keys}, {"9", "10"}, "others may yet read these")
        again = self.rank(1, 0, dp=1, session=1)
        again.begins(9)
        again.close()
        self.assertEqual(again._client.told, [])

    def test_the_first_rank_says_why_another_replica_has_no_lengths(self):
        first = self.rank(0, 0)
        with unittest.mock.patch("lowgear.adapters.lengths.say_once", self.said.append):
            self.rank(0, 1).tell(0, "expected lengths")
            self.assert_told(first, (0, 1, []))
        self.assertEqual(self.said, ["replica 1: expected lengths"])

    def test_one_rank_says_an_error_of_handing_over(self):
        refused = unittest.mock.Mock()
        refused.tell_lengths.side_effect = lowgear.LowgearError("tell them later")
        with unittest.mock.patch("lowgear.adapters.lengths.say_once", self.said.append):
            for place in (Place(0, 2, 0, 2), Place(0, 2, 1, 2)):
                Lengths(place, refused, lowgear.LowgearError, None, Use.PLAN).tell(0, SHORT)
        self.assertEqual(self.said, ["tell them later"])

    def test_a_change_reaches_every_rank(self):
        first, other = self.rank(0, 0, dp=1), self.rank(1, 0, dp=1)
        first.tell(0, SHORT)
        first.tell(0, SHORT)
        self.assert_told(other, (0, 0, SHORT))
        self.assertNotIn("lowgear/lengths/0/0/changed", self.store.keys)
        first.tell(0, LONG)
        self.assert_told(other, (0, 0, []))

    def test_old_keys_are_deleted(self):
        first = self.rank(0, 0, dp=1)
        for iteration in range(50):
            first.tell(iteration, SHORT)
            first.begins(iteration)
        first.tell(50, SHORT)
        wait_until(lambda: "lowgear/lengths/0/50/all" in self.store.keys, "the newest lengths are told")
        wait_until(lambda: len(self.store.keys) < 20, "old ones are deleted")

    def test_a_store_that_ends_ends_the_exchange(self):
        first = self.rank(0, 0)
        self.store.fails = True
        wait_until(lambda: self.said, "it is said")
        self.assertIn("lengths are not exchanged any more: Connection reset", self.said[0])
        first.tell(3, SHORT)

    def test_a_job_of_one_process_needs_no_store(self):
        lengths = Lengths(Place(0, 1), Client(), lowgear.LowgearError, None, Use.PLAN)
        lengths.tell(0, SHORT)
        self.assertEqual(lengths._client.told, [(0, 0, SHORT)])


class Call(Observed):
    def setUp(self):
        super().setUp()
        for target, value in (("lowgear.adapters.core._MARKS", self.marks), ("lowgear.adapters.core.say_once", self.said.append)):
            patch = unittest.mock.patch(target, value)
            patch.start()
            self.addCleanup(patch.stop)
        environment = unittest.mock.patch.dict("os.environ", LOWGEAR_STEPS="profile.csv")
        environment.start()
        self.addCleanup(environment.stop)

    def begin(self, number=None):
        self.marks.begin("test", 2, lambda: Job("test", Place(0, 2), None), number)

    def test_what_is_told_before_the_first_iteration_is_of_it(self):
        lowgear.tell_lengths([[3, 4], [5]])
        lowgear.tell_lengths(([6],), iteration=8)
        self.begin(7)
        self.assertEqual(self.session.told, [(7, [(7, 25), (5, 25)]), (8, [(6, 36)])])
        lowgear.tell_lengths([[1]])
        self.assertEqual(self.session.told[2], (None, [(1, 1)]))

    def test_wrong_arguments_do_not_end_the_job(self):
        self.begin()
        for wrong in (None, 7, [7], [["a"]], [[float("inf")]], [[10**400]], [[-1]], (1 // 0 for _ in range(1))):
            lowgear.tell_lengths(wrong)
            iteration, told = self.session.told[-1]
            self.assertIsNone(iteration)
            self.assertIn("expected the lengths of documents for each microbatch", told)
            self.assertEqual(self.said[-1], told)
        self.assertEqual(len(self.session.told), 8)

    def test_an_iteration_is_a_number(self):
        for wrong in (1.0, "0", -1, 10**400):
            lowgear.tell_lengths([[1]], iteration=wrong)
            self.assertIn("tell_lengths: expected the number of an iteration", self.said[-1])
        self.begin()
        self.assertEqual(self.session.told, [])
        self.assertIsNone(self.marks.refused)

    def test_a_call_in_a_process_that_loads_data_is_said_once(self):
        self.begin()
        with unittest.mock.patch("lowgear.adapters.marks.os.getpid", lambda: -1):
            lowgear.tell_lengths([[1]])
            lowgear.tell_lengths([[2]])
        loader = types.SimpleNamespace(get_worker_info=lambda: "worker 0")
        with unittest.mock.patch.dict(sys.modules, {"torch.utils.data": loader}):
            lowgear.tell_lengths([[3]])
        self.assertEqual(self.session.told, [])
        self.assertEqual(len([line for line in self.said if "in another process than the one that trains" in line]), 1)

    def test_tensors_are_read_unless_they_are_on_a_gpu(self):
        tensor = unittest.mock.Mock(is_cuda=False, tolist=lambda: [2, 3])
        self.assertEqual(amounts_of(tensor), (5, 13))
        with self.assertRaisesRegex(ValueError, "on a GPU would make the host wait"):
            amounts_of(unittest.mock.Mock(is_cuda=True))

    def test_without_lowgear_run_it_does_nothing(self):
        with unittest.mock.patch.dict("os.environ"), unittest.mock.patch("lowgear._lengths.warn_once") as warn:
            del os.environ["LOWGEAR_STEPS"]
            lowgear.tell_lengths([[1]])
        self.assertIn("tell_lengths does nothing", warn.call_args[0][0])
        self.begin()
        self.assertEqual(self.session.told, [])


if __name__ == "__main__":
    unittest.main()
