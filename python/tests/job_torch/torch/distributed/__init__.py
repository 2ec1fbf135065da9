"""A job of processes that have found each other where JOB_STORE names a folder, by which they exchange keys; else of one."""

import os
from types import SimpleNamespace


class _Store:
    """A c10d store whose keys are files."""

    def __init__(self, folder):
        self._folder = folder

    def _path(self, key):
        return os.path.join(self._folder, key.replace("/", "-"))

    def set(self, key, value):
        unfinished = f"{self._path(key)}.{os.getpid()}"
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(value)
        os.replace(unfinished, self._path(key))

    def check(self, keys):
        return all(os.path.exists(self._path(key)) for key in keys)

    def get(self, key):
        with open(self._path(key), "rb") as file:
            return file.read()

    def delete_key(self, key):
        try:
            os.remove(self._path(key))
        except FileNotFoundError:
            return False
        return True


distributed_c10d = SimpleNamespace(_get_default_store=lambda: _Store(os.environ["JOB_STORE"]))


def is_available():
    return "JOB_STORE" in os.environ


def is_initialized():
    return is_available()


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])
