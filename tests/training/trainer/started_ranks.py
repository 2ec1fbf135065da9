"""Ranks of the real trainer that a test starts itself, without `lowgear train`."""

import os
import subprocess

TRAINER = os.environ["LOWGEAR_TRAINER"]


def start_ranks(test, config, settings, size, meeting):
    """The processes of all ranks of the job of `config` with `settings` ("name=value"), which meet at the file `meeting`;
    they are ended with the test."""
    words = [word for setting in settings for word in ("--set", setting)]
    ranks = []
    for rank in range(size):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank),
                       "WORLD_SIZE": str(size), "LOWGEAR_RENDEZVOUS": str(meeting)}
        process = subprocess.Popen([TRAINER, *words, str(config)], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        test.addCleanup(process.stderr.close)
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        ranks.append(process)
    return ranks


def kill_ranks(ranks, first):
    """Kills this rank and then all of them, and waits for their ends. Whether it was alive."""
    alive = ranks[first].poll() is None
    ranks[first].kill()
    for process in ranks:
        process.kill()
        process.communicate()
    return alive
