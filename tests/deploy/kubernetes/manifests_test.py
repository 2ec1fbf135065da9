#!/usr/bin/env python3
"""deploy/kubernetes: every overlay renders, has no unknown field, and names nothing that another manifest does not
provide; and each of these checks refuses a fault that is planted.

Needs kubectl 1.24 or newer, and the packages python3-yaml and python3-kubernetes. Ends with 77 where one is missing.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

try:
    import yaml

    import api_types
    import cross_checks
    from manifests import Cluster, copied_manifests, kubectl, read_images, render
    kubectl()
except ImportError as missing:
    print(f"skipped: {missing}: the manifests of deploy/kubernetes are not checked", flush=True)
    sys.exit(77)

SOURCE = Path(os.environ["SOURCE"])
KUBERNETES = SOURCE / "deploy/kubernetes"
MINE = "deploy/kubernetes/overlays/mine"  # a reader's own, on the page


@dataclass(frozen=True)
class Facts:
    """What the manifests have to agree with."""
    images: dict
    version: str
    binary: str
    server_paths: frozenset
    prometheus_jobs: frozenset
    dashboards: dict
    rules: dict


def texts_of(folder, pattern):
    return {path.name: path.read_text() for path in folder.glob(pattern)}


def facts(monitoring):
    openapi = json.loads((SOURCE / "src/server/http/openapi.json").read_text())
    prometheus = yaml.safe_load((monitoring / "prometheus.yml").read_text())
    return Facts(read_images(SOURCE / "deploy/images/images.json"), os.environ["VERSION"], os.environ["LOWGEAR_BINARY"],
                 frozenset(openapi["paths"]) | {"/openapi.json"},
                 frozenset(job["job_name"] for job in prometheus["scrape_configs"]),
                 texts_of(monitoring / "dashboards", "*.json"), texts_of(monitoring, "lowgear.*.yml"))


class Rendered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = Path(tempfile.mkdtemp(prefix="lowgear-kubernetes-"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.folder = copied_manifests(SOURCE / "deploy", cls.work)
        cls.facts = facts(cls.work / "monitoring")
        cls.rendered = {path.parent.relative_to(cls.folder).as_posix(): render(path.parent)
                        for path in cls.folder.glob("*/*/kustomization.yaml")}

    def together(self, *names):
        """Documents of several kustomizations, as they are applied one after the other."""
        documents = {}
        for name in names:
            for document in copy.deepcopy(self.rendered[name]):
                metadata = document["metadata"]
                documents[document["kind"], metadata.get("namespace"), metadata["name"]] = document
        return list(documents.values())

    def everything(self):
        return [self.together("overlays/cluster", "overlays/mps-pool", "overlays/power-share", f"examples/{job}")
                for job in ("jobset", "pytorchjob", "mps")] + [
                    self.together("overlays/simulated", "examples/simulated"),
                    self.together("overlays/without-operator", "examples/jobset")]

    def problems(self, documents):
        found = [problem for document in documents for problem in api_types.problems_of_object(document)]
        return found or cross_checks.problems_of(Cluster(documents), self.facts)


class Manifests(Rendered):
    def test_every_kustomization_is_rendered_without_a_warning(self):
        self.assertEqual(set(self.rendered) & {"overlays/cluster", "overlays/simulated", "overlays/mps-pool"},
                         {"overlays/cluster", "overlays/simulated", "overlays/mps-pool"})
        self.assertGreater(sum(map(len, self.rendered.values())), 30)

    def test_they_have_no_unknown_field_and_agree_with_each_other(self):
        for documents in self.everything():
            self.assertEqual(self.problems(documents), [])

    def test_without_tokens_nothing_is_rendered(self):
        bare = self.work / "bare"
        shutil.copytree(KUBERNETES, bare, ignore=shutil.ignore_patterns("*.tokens", "*.token"))
        for name in ("overlays/cluster", "overlays/simulated", "examples/jobset", "examples/simulated"):
            with self.assertRaises(subprocess.CalledProcessError, msg=name) as refused:
                render(bare / name)
            self.assertRegex(refused.exception.stderr, r"server\.tokens|read\.token|train\.token")

    def test_tokens_are_not_made_twice_and_are_readable_for_their_owner_alone(self):
        again = subprocess.run([self.folder / "tokens.sh"], capture_output=True, text=True)
        self.assertEqual(again.returncode, 1)
        self.assertIn("exists", again.stderr)
        tokens = (self.folder / "base/tokens/server.tokens").read_text()
        self.assertRegex(tokens, r"\Aread name=prometheus [0-9a-f]{64}\nread,jobs name=training [0-9a-f]{64}\n"
                                 r"read,jobs,operate name=operators [0-9a-f]{64}\n\Z")
        self.assertIn((self.folder / "examples/token/train.token").read_text(), tokens)
        for path in self.folder.rglob("*.token*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o077, 0, path)

    def test_rules_and_dashboards_are_those_of_deploy(self):
        made = one(self.rendered["overlays/cluster"], "PrometheusRule")["spec"]["groups"]
        sources = [yaml.safe_load(self.facts.rules[name])["groups"] for name in ("lowgear.rules.yml", "lowgear.alerts.yml")]
        self.assertEqual(squeezed(made), squeezed(sources[0] + sources[1]))
        files = one(self.rendered["overlays/without-operator"], "ConfigMap", "lowgear-rules")["data"]
        self.assertEqual(files, self.facts.rules)
        for name in ("cluster", "without-operator"):
            maps = [d for d in self.rendered[f"overlays/{name}"] if "grafana_dashboard" in d["metadata"].get("labels", {})]
            self.assertEqual({file: text for d in maps for file, text in d["data"].items()}, self.facts.dashboards)
        self.assertNotIn("lowgear-rules", [d["metadata"]["name"] for d in self.rendered["overlays/cluster"]])

    @unittest.skipUnless(shutil.which("promtool"), "SKIPPED: there is no promtool (Debian: prometheus)")
    def test_prometheus_accepts_the_rules(self):
        rules = self.work / "rules.yml"
        rules.write_text(yaml.safe_dump(one(self.rendered["overlays/cluster"], "PrometheusRule")["spec"]))
        subprocess.run(["promtool", "check", "rules", rules], check=True, stdout=subprocess.DEVNULL)

    def test_without_the_operator_no_type_of_it_is_needed(self):
        kinds = {d["apiVersion"] for d in self.rendered["overlays/without-operator"]}
        self.assertEqual({kind for kind in kinds if "monitoring.coreos.com" in kind}, set())

    def test_what_the_page_names_is_there(self):
        page = (SOURCE / "docs/deploying.md").read_text()
        paths = set(re.findall(r"(?<![\w/])deploy/kubernetes/[\w/.-]*\w", page)) - {f"{MINE}/kustomization.yaml"}
        self.assertGreater(len(paths), 4)
        self.assertEqual([path for path in sorted(paths) if not (SOURCE / path).exists()], [])
        kinds = {"daemonset": "DaemonSet", "ds": "DaemonSet", "statefulset": "StatefulSet", "svc": "Service"}
        for kind, name in re.findall(rf"\b({'|'.join(kinds)})[/ ](lowgear[\w-]*)", page):
            one(self.rendered["overlays/cluster"], kinds[kind], name)

    def test_the_overlay_on_the_page_renders(self):
        page = (SOURCE / "docs/deploying.md").read_text()
        mine = self.work / MINE.replace("deploy/", "", 1)
        mine.mkdir()
        self.addCleanup(shutil.rmtree, mine)
        (mine / "kustomization.yaml").write_text(re.search(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1])
        documents = render(mine)
        images = {c["image"].rpartition(":")[0] for pod in Cluster(documents).pods for c in pod.containers}
        self.assertEqual(images, {"REGISTRY/lowgear-agent", "REGISTRY/lowgear-server"})
        claim = one(documents, "StatefulSet")["spec"]["volumeClaimTemplates"][0]
        self.assertEqual(claim["spec"]["storageClassName"], "CLASS")
        self.assertEqual([p for d in documents for p in api_types.problems_of_object(d)], [])

    def test_a_simulation_is_never_on_nodes_with_gpus(self):
        def of_agents(name):
            return [d for d in self.rendered[name] if d["kind"] == "DaemonSet"]
        self.assertNotIn("simgpu", json.dumps(of_agents("overlays/cluster") + of_agents("overlays/mps-pool")))
        for image in ("agent", "server"):
            self.assertNotIn("lowgear-simgpu", self.facts.images["images"][image]["packages"])


def squeezed(groups):
    """Rules without their white space: kustomize adds empty lines to expressions of several lines."""
    return re.sub(r"(\\n|\s)+", " ", json.dumps(groups, sort_keys=True))


def one(documents, kind, name=None):
    return next(d for d in documents if d["kind"] == kind and (name is None or d["metadata"]["name"] == name))


def pod_spec(document):
    if document["kind"] == "JobSet":
        return document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return document["spec"]["template"]["spec"]


def edit(document, pattern, replacement):
    """The document with each text that matches replaced; a pattern that matches nothing is a mistake of the test."""
    text, count = re.subn(pattern, replacement, json.dumps(document))
    assert count, pattern
    changed = json.loads(text)
    document.clear()
    document.update(changed)


def without(document, documents):
    documents.remove(document)


# Each: what is planted, how, and what the refusal says.
FAULTS = {
    "an unknown field of a pod": (
        lambda d: pod_spec(one(d, "DaemonSet", "lowgear-agent")).update(nodeSelektor={"a": "b"}), "no such field in V1PodSpec"),
    "an unknown field of a monitor": (
        lambda d: one(d, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(intervall="5s"), "intervall: there is no such field"),
    "an unknown field in a pod of a custom resource": (
        lambda d: pod_spec(one(d, "JobSet"))["containers"][0].update(imag="x"), "no such field in V1Container"),
    "an unknown field of a custom resource": (
        lambda d: one(d, "JobSet")["spec"].update(failurepolicy={}), "no such field in JobSetSpec"),
    "a number where text is wanted": (
        lambda d: one(d, "Namespace", "training")["metadata"]["labels"].update({"lowgear-client": True}), "is no str"),
    "a field that is missing": (
        lambda d: pod_spec(one(d, "StatefulSet"))["containers"][0].pop("image"), "image: is required"),
    "another kind": (lambda d: one(d, "PodMonitor").update(kind="PodMonitr"), "the kind monitoring.coreos.com/v1/PodMonitr"),
    "another port in the agent's configuration": (
        lambda d: edit(one(d, "ConfigMap", agent_map(d)), "metrics_port: 9401", "metrics_port: 9400"), "configuration says 9400"),
    "another port of the server's container": (
        lambda d: edit(one(d, "StatefulSet"), '"containerPort": 7787', '"containerPort": 7788'), "configuration says 7787"),
    "another port of the server's service": (
        lambda d: one(d, "Service")["spec"]["ports"][0].update(port=80), "has no such port"),
    "a service of a port that no container has": (
        lambda d: one(d, "Service")["spec"]["ports"][0].update(targetPort="web"), "has no port web"),
    "a probe at another port": (
        lambda d: edit(one(d, "StatefulSet"), '"port": "http"', '"port": "htpt"'), "which is not declared"),
    "a probe of a path that is not there": (
        lambda d: edit(one(d, "DaemonSet", "lowgear-agent"), "/healthz", "/health"), "/health, which is not there"),
    "a monitor of a port that is not there": (
        lambda d: edit(one(d, "ServiceMonitor"), '"port": "http"', '"port": "web"'), "there is no port web"),
    "a monitor whose job no rule knows": (
        lambda d: edit(one(d, "PodMonitor"), "app.kubernetes.io/name\", \"pod|\"jobLabel\": \"app.kubernetes.io/name\"",
                       '"jobLabel": "app.kubernetes.io/part-of"'), "rules know the jobs"),
    "a policy for a port that is not there": (
        lambda d: edit(one(d, "NetworkPolicy", "lowgear-server"), '"port": "http"', '"port": "https"'), "has no port https"),
    "a policy for calls of pods that are not there": (
        lambda d: edit(one(d, "NetworkPolicy", "lowgear-power-share-out"), "lowgear-server", "lowgear-sever"), "there is no pod to"),
    "a policy for calls from pods that are not there": (
        lambda d: edit(one(d, "NetworkPolicy", "lowgear-power-share-in"), "lowgear-agent", "lowgear-agents"), "there is no pod from"),
    "a policy for calls of a port that is not there": (
        lambda d: edit(one(d, "NetworkPolicy", "lowgear-power-share-out"), '"port": "http"', '"port": "https"'), "no port https to be called"),
    "a policy that keeps training out": (
        lambda d: one(d, "Namespace", "training")["metadata"]["labels"].pop("lowgear-client"), "keeps training from"),
    "a secret that nothing provides": (
        lambda d: without(one(d, "Secret", "lowgear-server-tokens"), d), "no manifest provides Secret lowgear-server-tokens"),
    "a secret without the key": (
        lambda d: one(d, "Secret", "lowgear-read-token")["data"].pop("token"), "with token in lowgear"),
    "a secret of another namespace": (
        lambda d: one(d, "Secret", "lowgear-train-token")["metadata"].update(namespace="lowgear"), "lowgear-train-token in training"),
    "a configuration that nothing provides": (
        lambda d: without(one(d, "ConfigMap", agent_map(d)), d), "no manifest provides ConfigMap"),
    "a configuration mounted as links": (
        lambda d: edit(one(d, "StatefulSet"), '"subPath": "server.yaml"', '"readOnly": true'), "refuse links"),
    "an image that ./dev image does not make": (
        lambda d: edit(one(d, "StatefulSet"), "lowgear-server:0", "lowgear-sever:0"), "makes no image lowgear-sever"),
    "an image of another version": (
        lambda d: edit(one(d, "DaemonSet", "lowgear-agent"), r"lowgear-agent:[0-9.]+", "lowgear-agent:latest"), "makes no image"),
    "a program that the image lacks": (
        lambda d: edit(one(d, "StatefulSet"), "/usr/bin/lowgear", "/usr/bin/lowgear-server"), "nothing provides /usr/bin/lowgear-server"),
    "a host path that no agent provides": (
        lambda d: edit(one(d, "JobSet"), '"path": "/run/lowgear"', '"path": "/var/run/lowgear"'), "no agent provides /var/run/lowgear"),
    "a journal where nothing is mounted": (
        lambda d: edit(one(d, "ConfigMap", agent_map(d)), '/var/lib/lowgear', '/var/lib/lowgaer'), "where nothing is mounted"),
    "a volume that is not there": (
        lambda d: pod_spec(one(d, "StatefulSet"))["volumes"].pop(), "there is no volume tmp"),
    "an option that lowgear does not have": (
        lambda d: edit(one(d, "JobSet"), '"--slowdown"', '"--slow-down"'), "has no option --slow-down"),
    "a verb that lowgear does not have": (
        lambda d: edit(one(d, "StatefulSet"), '"serve"', '"server"'), "no verb server"),
    "an address of no service": (
        lambda d: edit(one(d, "JobSet"), "lowgear-server.lowgear:", "lowgear.lowgear:"), "no Service for"),
    "a variable that is not set": (
        lambda d: edit(one(d, "JobSet"), r"\$\(NODE_RANK\)", "$(RANK_OF_NODE)"), "a variable that is not set"),
    "a training pod without the sockets' group": (
        lambda d: edit(one(d, "JobSet"), "47786", "47785"), "without their group"),
    "a budget that Kubernetes would not count": (
        lambda d: edit(one(d, "PodDisruptionBudget", "llama"), '"minAvailable": 2', '"maxUnavailable": 0'), "count by number only"),
    "two sets that select each other's pods": (
        lambda d: one(d, "DaemonSet", "lowgear-agent")["spec"]["selector"]["matchLabels"].pop("lowgear-pool"), "are selected by"),
    "a set without its service": (
        lambda d: one(d, "StatefulSet")["spec"].update(serviceName="lowgear"), "no Service lowgear"),
    "an agent with every capability": (
        lambda d: edit(one(d, "DaemonSet", "lowgear-agent"), '"SYS_ADMIN"', '"SYS_ADMIN", "SYS_PTRACE"'), "more capabilities"),
    "a privileged server": (
        lambda d: pod_spec(one(d, "StatefulSet"))["containers"][0]["securityContext"].update(privileged=True), "may gain privileges"),
    "a namespace that nothing makes": (
        lambda d: without(one(d, "Namespace", "training"), d), "no manifest makes the namespace training"),
    "a dashboard that the sidecar does not see": (
        lambda d: dashboard(d)["metadata"]["labels"].update(grafana_dashboard="true"), "without the label grafana_dashboard=1"),
    "a dashboard that was changed": (
        lambda d: edit(dashboard(d), "lowgear_", "lowgaer_"), "is not that of deploy/"),
    "a dashboard that is missing": (
        lambda d: without(dashboard(d), d), "lowgear-fleet.json is in no ConfigMap"),
    "a dashboard that is there twice": (
        lambda d: one(d, "ConfigMap", "lowgear-job-dashboard")["data"].update(dashboard(d)["data"]), "is in several ConfigMaps"),
    "a file for the sidecar that is no dashboard": (
        lambda d: dashboard(d)["data"].update({"notes.txt": "x"}), "none of Grafana's dashboards"),
    "a map too large to be applied": (
        lambda d: one(d, "ConfigMap", agent_map(d))["data"].update({"notes": "x" * 300000}), "is too large"),
    "a token of Kubernetes": (
        lambda d: pod_spec(one(d, "StatefulSet")).pop("automountServiceAccountToken"), "which nothing needs"),
}


def agent_map(documents):
    return next(d["metadata"]["name"] for d in documents
                if d["kind"] == "ConfigMap" and d["metadata"]["name"].startswith("lowgear-agent-") and "mps" not in d["metadata"]["name"])


def dashboard(documents):
    return one(documents, "ConfigMap", "lowgear-fleet-dashboard")


class Faults(Rendered):
    def test_each_is_refused(self):
        for what, (plant, refusal) in FAULTS.items():
            with self.subTest(what):
                documents = self.together("overlays/cluster", "overlays/mps-pool", "overlays/power-share", "examples/jobset")
                plant(documents)
                found = self.problems(documents)
                self.assertTrue(any(refusal in problem for problem in found), (refusal, found))


if __name__ == "__main__":
    unittest.main()
