"""The energy of jobs in Slurm's accounts: Debian's slurmdbd on MariaDB, next to what cluster.py starts. Ends as skipped where
they are not installed (own_root.py; make_root.sh installs them)."""

import os
import re
import sys
import unittest
from pathlib import Path

import own_root

own_root.enter()
from cluster import Cluster, wait_until  # noqa: E402

NEEDED = ("/usr/sbin/slurmdbd", "/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db")
DATABASE = Path("/run/mysqld")
SOCKET = DATABASE / "mysqld.sock"  # slurmdbd's library looks there for the database of localhost
JOB = f"/usr/bin/python3 {own_root.SOURCE}/tests/deploy/slurm/gpu_job.py"
SLURM_LINES = f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={own_root.NODE}
AccountingStoreFlags=job_comment
"""
SLURMDBD_CONF = f"""AuthType=auth/munge
DbdHost={own_root.NODE}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=of-no-value
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
SQL = "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED BY 'of-no-value'; GRANT ALL ON *.* TO slurm@localhost"


class AccountedCluster(Cluster):
    """Its slurmctld is started once slurmdbd serves."""

    def _daemon(self, name, command):
        if name == "slurmctld":
            self._start_database()
            self._start_slurmdbd()
        super()._daemon(name, command)

    def _start_database(self):
        data = DATABASE / "data"
        DATABASE.mkdir()
        self.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db",
                  "--auth-root-authentication-method=normal"])
        super()._daemon("mariadbd", ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={SOCKET}",
                                     "--skip-networking", f"--pid-file={DATABASE}/pid"])
        client = ["mariadb", "--no-defaults", f"--socket={SOCKET}", "--user=root"]
        wait_until(lambda: self.run([*client, "--execute=SELECT 1"], check=False).returncode == 0, "the database serves")
        self.run([*client, f"--execute={SQL}"])

    def _start_slurmdbd(self):
        path = Path("/etc/slurm/slurmdbd.conf")
        path.touch(0o600)
        path.write_text(SLURMDBD_CONF)
        super()._daemon("slurmdbd", ["slurmdbd", "-D"])
        wait_until(lambda: self.run(["sacctmgr", "--noheader", "show", "cluster"], check=False).returncode == 0,
                   lambda: f"slurmdbd serves: {Path('/var/log/slurmdbd.log').read_text()}")
        self.run(["sacctmgr", "--immediate", "add", "cluster", "lowgear"])


class Accounts(unittest.TestCase):
    def test_have_the_energy_of_each_job_and_step(self):
        cluster = AccountedCluster(Cluster.lowgear_lines() + SLURM_LINES)
        self.addCleanup(cluster.stop)
        cluster.start()
        for user in own_root.USERS:
            job = cluster.submit(f"srun {JOB} 3", "--gres=gpu:1", user=user)
            fields = cluster.wait_for_end(job)
            self.assertEqual(fields["JobState"], "COMPLETED", cluster.output(job, user))
            words = ["sacct", "--noheader", "--parsable2", f"--jobs={job}", "--allocations", "--format=UID,State,Comment"]
            text = wait_until(lambda: "COMPLETED" in (row := cluster.run(words).stdout) and row,
                              lambda: f"the job is in the accounts: {cluster.run(words).stdout}")
            uid, state, comment = text.strip().split("|")
            self.assertEqual((uid, state), (str(own_root.USERS[user]), "COMPLETED"))
            energy = re.search(r"lowgear\[node0 gpus=1 energy_j=([0-9.]+) time_s=[0-9.]+ steps_j=.*\bbatch:", comment)
            self.assertIsNotNone(energy, comment)
            self.assertGreater(float(energy[1]), 100)


if __name__ == "__main__":
    missing = [name for name in NEEDED if not os.path.exists(name)]
    if missing:
        print(f"skipped: accounts are not tried: there is no {missing[0]}; tests/deploy/slurm/make_root.sh makes a root "
              "that has it", file=sys.stderr)
        sys.exit(own_root.SKIPPED)
    unittest.main()
