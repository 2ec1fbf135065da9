"""The processes of one job meet in the folder STAND_IN_GROUP."""

import itertools
import json
import os
import pathlib
import time

_broadcasts = itertools.count()


def is_initialized():
    return True


def get_rank():
    return int(os.environ["RANK"])


def broadcast_object_list(objects, src=0):
    path = pathlib.Path(os.environ["STAND_IN_GROUP"]) / f"broadcast-{next(_broadcasts)}.json"
    if get_rank() == src:
        written = path.with_suffix(".new")
        written.write_text(json.dumps(objects))
        written.rename(path)
    while not path.exists():
        time.sleep(0.01)
    objects[:] = json.loads(path.read_text())
