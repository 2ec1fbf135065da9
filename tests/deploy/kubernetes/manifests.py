"""Manifests as kustomize renders them, and what all of them say together."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml


class NoKubectl(ImportError):
    """The program is missing, as a package of Python may be: tests treat both alike."""


def kubectl():
    """The program, if it renders what `kubectl` since 1.24 renders."""
    found = shutil.which("kubectl")
    if not found:
        raise NoKubectl("there is no kubectl")
    text = subprocess.run([found, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True).stdout
    minor = int(re.search(r'"minor": "(\d+)', text)[1])
    if minor < 24:
        raise NoKubectl(f"kubectl 1.{minor} is too old; 1.24 is not")
    return found


def copied_manifests(deploy, folder):
    """Copies of the folders kubernetes and monitoring in which tokens.sh and render.py were run, as an operator does."""
    made = shutil.ignore_patterns("*.tokens", "*.token", "dashboards", "rules.yaml", "__pycache__")
    for name in ("kubernetes", "monitoring"):
        shutil.copytree(deploy / name, folder / name, ignore=made)
    for command in ("kubernetes/tokens.sh", "monitoring/render.py"):
        subprocess.run([folder / command], check=True)
    return folder / "kubernetes"


def render(folder):
    """The documents of a kustomization. Raises CalledProcessError where kustomize refuses it, or warns."""
    done = subprocess.run([kubectl(), "kustomize", str(folder)], capture_output=True, text=True)
    if done.returncode or done.stderr:
        raise subprocess.CalledProcessError(done.returncode or 1, done.args, done.stdout, done.stderr)
    return list(yaml.safe_load_all(done.stdout))


@dataclass
class Pod:
    """A pod template, and the object that it belongs to."""
    owner: dict
    labels: dict
    spec: dict
    count: int

    @property
    def name(self):
        return f"{self.owner['kind']} {self.owner['metadata']['name']}"

    @property
    def namespace(self):
        return self.owner["metadata"].get("namespace")

    @property
    def containers(self):
        return self.spec.get("initContainers", []) + self.spec["containers"]

    def volume(self, name):
        for claim in self.owner["spec"].get("volumeClaimTemplates", []):
            if claim["metadata"]["name"] == name:
                return {"name": name, "persistentVolumeClaim": claim["spec"]}
        return next((volume for volume in self.spec.get("volumes", []) if volume["name"] == name), None)


def pod_of(owner, template, count):
    return Pod(owner, template.get("metadata", {}).get("labels", {}), template["spec"], count)


def pods_of(documents):
    for owner in documents:
        spec = owner.get("spec", {})
        if owner["kind"] in ("DaemonSet", "StatefulSet"):
            yield pod_of(owner, spec["template"], spec.get("replicas", 1))
        elif owner["kind"] == "Job":
            yield pod_of(owner, spec["template"], spec.get("parallelism", 1))
        elif owner["kind"] == "JobSet":
            for replicated in spec["replicatedJobs"]:
                job = replicated["template"]["spec"]
                yield pod_of(owner, job["template"], replicated.get("replicas", 1) * job.get("parallelism", 1))
        elif owner["kind"] == "PyTorchJob":
            for replica in spec["pytorchReplicaSpecs"].values():
                yield pod_of(owner, replica["template"], replica.get("replicas", 1))


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


class Cluster:
    """What a set of manifests provides, for questions of names."""

    def __init__(self, documents):
        self.documents = documents
        self.pods = list(pods_of(documents))
        self.namespaces = {d["metadata"]["name"] for d in documents if d["kind"] == "Namespace"}

    def of_kind(self, *kinds):
        return [document for document in self.documents if document["kind"] in kinds]

    def find(self, kind, namespace, name):
        return next((d for d in self.of_kind(kind)
                     if d["metadata"]["name"] == name and d["metadata"].get("namespace") == namespace), None)

    def pods_selected(self, namespace, selector):
        return [pod for pod in self.pods if pod.namespace == namespace and selects(selector, pod.labels)]

    def files_of(self, pod, volume):
        """What a volume of a ConfigMap or Secret holds, as {file: text}; None for one that there is not."""
        kind, name = (("ConfigMap", volume["configMap"]["name"]) if "configMap" in volume
                      else ("Secret", volume["secret"]["secretName"]))
        found = self.find(kind, pod.namespace, name)
        return None if found is None else found.get("data", {})

    def config_of(self, pod, path):
        """The configuration that is mounted in a pod at a path; None where there is none."""
        for container in pod.containers:
            for mount in container.get("volumeMounts", []):
                volume = pod.volume(mount["name"])
                if mount["mountPath"] == path and volume and "configMap" in volume:
                    text = (self.files_of(pod, volume) or {}).get(mount.get("subPath"))
                    return None if text is None else yaml.safe_load(text)
        return None


def port_names(pod):
    return {port["name"]: port["containerPort"] for c in pod.containers for port in c.get("ports", []) if "name" in port}


def read_images(path):
    return json.loads(Path(path).read_text())
