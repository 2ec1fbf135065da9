"""Requests to the agent of this node through its HTTP socket (docs/agent.md)."""

import http.client
import json
import os
import re
import socket
import time
from pathlib import Path

CONFIGURATION = Path("/etc/lowgear/agent.yaml")
PATIENCE_S = 10


def http_socket(configuration=CONFIGURATION):
    """The socket of the node's agent, which all jobs on the node share, from the agent's configuration."""
    try:
        found = re.search(r"""^(?:[^#\n]*[ {,])?http_socket: +(?:"([^"]+)"|'([^']+)'|([^\s,}#]+))""",
                          configuration.read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        found = None
    return found[found.lastindex] if found else "/run/lowgear/agent.sock"


class AgentError(Exception):
    """The agent does not run, does not respond in time, or refuses."""


def _ask(method, path, document=None):
    path_of_socket = http_socket()
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(PATIENCE_S)
    try:
        connection.sock.connect(path_of_socket)
        connection.request(method, path, None if document is None else json.dumps(document),
                           {"Content-Type": "application/json"} if document is not None else {})
        response = connection.getresponse()
        body = json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AgentError(f"the agent at {path_of_socket} does not respond: {error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise AgentError(f"{method} {path}: {body.get('error', {}).get('message', response.status)}")
    return body


def gpus():
    """The GPUs of `GET /v1/gpus`. Raises AgentError."""
    return _ask("GET", "/v1/gpus")["gpus"]


def end_lease(lease):
    """Has the agent end a lease and restore its GPU. Raises AgentError, also when the lease has ended by itself."""
    _ask("DELETE", f"/v1/leases/{lease}")


def assign(gpu, uid, job, sluid=None):
    """Lets only this job of the user lease the GPU until it gives it back. Raises AgentError."""
    names = {"job": job, "sluid": sluid} if sluid else {"job": job}
    _ask("PUT", f"/v1/gpus/{gpu}/assignment", {"uid": uid, **names})


def give_back(gpu, job):
    """Ends the assignment. Raises AgentError, also if the GPU is not assigned to the job."""
    _ask("DELETE", f"/v1/gpus/{gpu}/assignment?job={job}")


def age_s():
    """Seconds since the agent started, by the age of its socket; 0 without a socket."""
    try:
        return max(0.0, time.time() - os.stat(http_socket()).st_mtime)
    except OSError:
        return 0.0
