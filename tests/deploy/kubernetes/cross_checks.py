"""What manifests name in one place and provide in another. Each check returns its problems as text."""

import functools
import json
import re
import subprocess
from urllib.parse import urlsplit

from manifests import port_names

SOCKETS = "/run/lowgear"
AGENT_CONFIG = "/etc/lowgear/agent.yaml"
SERVER_CONFIG = "/etc/lowgear/server.yaml"
TRAINING_IMAGE = "registry.example/training:1"  # stands for the image of a user's own job
# Files that manifests name inside our images, and the package that brings each.
FILES = {
    "/usr/bin/lowgear": "lowgear",
    "/bin/busybox": "busybox-static",
    "/usr/lib/x86_64-linux-gnu/lowgear/simgpu/libnvidia-ml.so.1": "lowgear-simgpu",
    "/usr/share/lowgear/examples/llama-4-stages.yaml": "lowgear-trainer",
}
APPLY_BYTES = 256 * 1024  # of annotations of an object
OUTSIDE = {"gpu-operator"}  # namespaces of others


def is_agent(pod):
    return pod.labels.get("app.kubernetes.io/name") == "lowgear-agent"


def is_server(pod):
    return pod.labels.get("app.kubernetes.io/name") == "lowgear-server"


def namespaces(cluster, _):
    return [f"{d['kind']} {d['metadata']['name']}: no manifest makes the namespace {d['metadata'].get('namespace')}"
            for d in cluster.documents
            if d["kind"] != "Namespace" and d["metadata"].get("namespace") not in cluster.namespaces | OUTSIDE]


def image_of(container, facts):
    """The image of ours that a container runs; None for one of others. Raises KeyError where ./dev image makes none."""
    if container["image"] == TRAINING_IMAGE:
        return None
    name, _, tag = container["image"].rpartition(":")
    if tag != facts.version or not name.startswith("lowgear-"):
        raise KeyError(container["image"])
    return facts.images["images"][name.removeprefix("lowgear-")]


def images(cluster, facts):
    found = []
    for pod in cluster.pods:
        for container in pod.containers:
            try:
                image_of(container, facts)
            except KeyError:
                found.append(f"{pod.name}: ./dev image makes no image {container['image']}")
    return found


def paths_named(container):
    texts = container.get("command", []) + container.get("args", []) + [e.get("value", "") for e in container.get("env", [])]
    return [text for word in texts for text in (word, word.partition("=")[2]) if text.startswith("/")]


def paths(cluster, facts):
    """Every path of a command or variable is in the image, or below something mounted."""
    found = []
    for pod in cluster.pods:
        for container in pod.containers:
            try:
                image = image_of(container, facts)
            except KeyError:
                continue
            mounted = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            inside = [path for path, package in FILES.items() if image and package in image["packages"]]
            inside += [image["wheel"]] if image and "wheel" in image else []
            for path in paths_named(container):
                if not any(path == known or path.startswith(known + "/") for known in mounted + inside):
                    found.append(f"{pod.name}: nothing provides {path} in the container {container['name']}")
    return found


def volumes(cluster, _):
    found = []
    for pod in cluster.pods:
        used = set()
        for container in pod.containers:
            for mount in container.get("volumeMounts", []):
                used.add(mount["name"])
                volume = pod.volume(mount["name"])
                if volume is None:
                    found.append(f"{pod.name}: there is no volume {mount['name']}")
                elif "configMap" in volume or "secret" in volume:
                    found += files_mounted(cluster, pod, volume, mount)
        found += [f"{pod.name}: the volume {volume['name']} is mounted nowhere"
                  for volume in pod.spec.get("volumes", []) if volume["name"] not in used]
    return found


def files_mounted(cluster, pod, volume, mount):
    files = cluster.files_of(pod, volume)
    if files is None:
        source = volume.get("secret") or volume["configMap"]
        return [f"{pod.name}: no manifest provides {'Secret' if 'secret' in volume else 'ConfigMap'} "
                f"{source.get('secretName') or source.get('name')} in {pod.namespace}"]
    if "subPath" in mount and mount["subPath"] not in files:
        return [f"{pod.name}: there is no {mount['subPath']} in what is mounted at {mount['mountPath']}"]
    if "subPath" not in mount and mount["mountPath"].startswith("/etc/lowgear/"):
        return [f"{pod.name}: {mount['mountPath']} needs a subPath: agent and server refuse links"]
    return []


def host_paths(cluster, _):
    """What a training pod takes from its node is what the agent puts there."""
    provided = {volume["hostPath"]["path"] for pod in cluster.pods if is_agent(pod)
                for volume in pod.spec.get("volumes", []) if "hostPath" in volume}
    return [f"{pod.name}: no agent provides {volume['hostPath']['path']} on the node"
            for pod in cluster.pods if not is_agent(pod)
            for volume in pod.spec.get("volumes", []) if "hostPath" in volume and volume["hostPath"]["path"] not in provided]


def groups(cluster, facts):
    """Who mounts the sockets has their group; the agent's own configuration names it as the image does."""
    gid = facts.images["groups"]["lowgear"]
    found = []
    for pod in cluster.pods:
        mounts = [v for v in pod.spec.get("volumes", []) if v.get("hostPath", {}).get("path") == SOCKETS]
        if mounts and gid not in pod.spec.get("securityContext", {}).get("supplementalGroups", []):
            found.append(f"{pod.name}: mounts the agent's sockets without their group {gid}")
        if is_agent(pod) and (cluster.config_of(pod, AGENT_CONFIG) or {}).get("sockets", {}).get("group") != "lowgear":
            found.append(f"{pod.name}: {AGENT_CONFIG} gives the sockets another group than the image has")
    return found


def configured_ports(cluster, _):
    found = []
    for pod in cluster.pods:
        if is_agent(pod):
            found += same_port(pod, "metrics", (cluster.config_of(pod, AGENT_CONFIG) or {}).get("sockets", {}).get("metrics_port"))
        if is_server(pod):
            tcp = (cluster.config_of(pod, SERVER_CONFIG) or {}).get("listen", {}).get("tcp", [":0"])
            found += same_port(pod, "http", int(tcp[0].rpartition(":")[2]))
    return found


def same_port(pod, name, configured):
    declared = port_names(pod).get(name)
    return [] if declared == configured else [f"{pod.name}: port {name} is {declared}, its configuration says {configured}"]


def configured_paths(cluster, _):
    """What a configuration names lies in a volume that can be written, or is a file that is mounted."""
    found = []
    for pod in cluster.pods:
        for path, keys in ((AGENT_CONFIG, ("journal",)), (SERVER_CONFIG, ("state",))):
            config = cluster.config_of(pod, path)
            if config is None:
                if is_agent(pod) and path == AGENT_CONFIG or is_server(pod) and path == SERVER_CONFIG:
                    found.append(f"{pod.name}: {path} is not mounted")
                continue
            named = [config[key] for key in keys]
            named += [v for v in {**config.get("sockets", {}), **config.get("listen", {})}.values()
                      if isinstance(v, str) and v.startswith("/")]
            mounts = [m for m in pod.spec["containers"][0]["volumeMounts"]]
            for name in named:
                below = any(name.startswith(m["mountPath"] + "/") or name == m["mountPath"] for m in mounts)
                if not below:
                    found.append(f"{pod.name}: {path} names {name}, where nothing is mounted")
    return found


def probes(cluster, facts):
    found = []
    for pod in cluster.pods:
        known = {"/healthz"} | (facts.server_paths if is_server(pod) else set())
        for container in pod.containers:
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                get = container.get(kind, {}).get("httpGet")
                if get and get["port"] not in port_names(pod):
                    found.append(f"{pod.name}: {kind} asks at the port {get['port']}, which is not declared")
                if get and get["path"] not in known:
                    found.append(f"{pod.name}: {kind} asks for {get['path']}, which is not there")
            if (is_agent(pod) or is_server(pod)) and not {"readinessProbe", "livenessProbe"} <= set(container):
                found.append(f"{pod.name}: the container {container['name']} has no probes")
    return found


def services(cluster, _):
    found = []
    for service in cluster.of_kind("Service"):
        name, spec = service["metadata"]["name"], service["spec"]
        pods = cluster.pods_selected(service["metadata"].get("namespace"), {"matchLabels": spec["selector"]})
        found += [] if pods else [f"Service {name}: selects no pod"]
        found += [f"Service {name}: {pod.name} has no port {port['targetPort']}"
                  for pod in pods for port in spec["ports"] if port["targetPort"] not in port_names(pod)]
    for pod in cluster.pods:
        wanted = pod.owner["spec"].get("serviceName")
        if wanted and not cluster.find("Service", pod.namespace, wanted):
            found.append(f"{pod.name}: there is no Service {wanted}")
    return found


def addresses(cluster, _):
    """Addresses of services in commands: name, namespace, port, and who lets whom in."""
    found = []
    for pod in cluster.pods:
        for container in pod.containers:
            for text in container.get("command", []):
                if not text.startswith("http://"):
                    continue
                url = urlsplit(text)
                name, _, namespace = url.hostname.partition(".")
                service = cluster.find("Service", namespace.removesuffix(".svc"), name)
                if service is None:
                    found.append(f"{pod.name}: there is no Service for {text}")
                elif url.port not in [port["port"] for port in service["spec"]["ports"]]:
                    found.append(f"{pod.name}: the Service of {text} has no such port")
                elif not lets_in(cluster, service, pod):
                    found.append(f"{pod.name}: a NetworkPolicy keeps {pod.namespace} from {text}")
    return found


def lets_in(cluster, service, pod):
    labels = next((d["metadata"].get("labels", {}) for d in cluster.of_kind("Namespace")
                   if d["metadata"]["name"] == pod.namespace), {})
    policies = [p for p in cluster.of_kind("NetworkPolicy")
                if p["metadata"].get("namespace") == service["metadata"].get("namespace")
                and p["spec"]["podSelector"].get("matchLabels", {}).items() <= service["spec"]["selector"].items()]
    policies = [p for p in policies if "Ingress" in p["spec"]["policyTypes"]]
    return not policies or any(admits(source, policy["metadata"].get("namespace"), pod, labels) for policy in policies
                               for rule in policy["spec"].get("ingress", []) for source in rule.get("from", []))


def admits(source, own_namespace, pod, labels):
    """Whether a source of a policy is the pod, whose namespace has these labels."""
    wanted = source.get("podSelector", {}).get("matchLabels", {})
    if "namespaceSelector" not in source:
        return pod.namespace == own_namespace and wanted.items() <= pod.labels.items()
    return source["namespaceSelector"].get("matchLabels", {}).items() <= labels.items() and wanted.items() <= pod.labels.items()


def policies(cluster, _):
    found = []
    for policy in cluster.of_kind("NetworkPolicy"):
        namespace = policy["metadata"].get("namespace")
        pods = cluster.pods_selected(namespace, policy["spec"]["podSelector"])
        name = f"NetworkPolicy {policy['metadata']['name']}"
        found += [] if pods else [f"{name}: selects no pod"]
        wanted = [port["port"] for rule in policy["spec"].get("ingress", []) for port in rule.get("ports", [])]
        found += [f"{name}: {pod.name} has no port {port}" for pod in pods for port in wanted if port not in port_names(pod)]
        found += unknown_peers(cluster, policy, name, namespace)
    return found


def unknown_peers(cluster, policy, name, namespace):
    """Pods of the policy's own namespace that it lets in, or lets its pods call: they are there, with the ports that are
    called by name."""
    found = []
    for way, rules in (("from", policy["spec"].get("ingress", [])), ("to", policy["spec"].get("egress", []))):
        for rule in rules:
            for peer in rule.get(way, []):
                if "podSelector" not in peer or "namespaceSelector" in peer:
                    continue
                pods = cluster.pods_selected(namespace, peer["podSelector"])
                found += [] if pods else [f"{name}: there is no pod {way} which it allows connections"]
                called = [port["port"] for port in rule.get("ports", []) if way == "to" and isinstance(port["port"], str)]
                found += [f"{name}: {pod.name} has no port {port} to be called at"
                          for pod in pods for port in called if port not in port_names(pod)]
    return found


def budgets(cluster, _):
    found = []
    for budget in cluster.of_kind("PodDisruptionBudget"):
        name = f"PodDisruptionBudget {budget['metadata']['name']}"
        pods = cluster.pods_selected(budget["metadata"].get("namespace"), budget["spec"]["selector"])
        count = sum(pod.count for pod in pods)
        found += [] if pods else [f"{name}: selects no pod"]
        by_number = any(pod.owner["kind"] not in ("StatefulSet", "Deployment") for pod in pods)
        if by_number and budget["spec"].get("minAvailable") != count:
            found.append(f"{name}: pods of jobs count by number only, and there are {count}")
    return found


def selectors(cluster, _):
    found = []
    owners = cluster.of_kind("DaemonSet", "StatefulSet")
    for pod in cluster.pods:
        if pod.owner in owners and not pod.owner["spec"]["selector"]["matchLabels"].items() <= pod.labels.items():
            found.append(f"{pod.name}: does not select its own pods")
        for other in owners:
            same = other["metadata"].get("namespace") == pod.namespace and other is not pod.owner
            if same and other["spec"]["selector"]["matchLabels"].items() <= pod.labels.items():
                found.append(f"{pod.name}: its pods are selected by {other['metadata']['name']}, too")
    return found


def monitors(cluster, facts):
    found = []
    for monitor in cluster.of_kind("ServiceMonitor", "PodMonitor"):
        spec, name = monitor["spec"], f"{monitor['kind']} {monitor['metadata']['name']}"
        namespace = monitor["metadata"].get("namespace")
        if monitor["kind"] == "PodMonitor":
            targets = [(pod.labels, set(port_names(pod))) for pod in cluster.pods_selected(namespace, spec["selector"])]
        else:
            targets = [(s["metadata"]["labels"], {port["name"] for port in s["spec"]["ports"]})
                       for s in cluster.of_kind("Service")
                       if s["metadata"].get("namespace") == namespace
                       and spec["selector"]["matchLabels"].items() <= s["metadata"].get("labels", {}).items()]
        found += [] if targets else [f"{name}: selects nothing"]
        endpoints = spec.get("endpoints") or spec.get("podMetricsEndpoints")
        for labels, ports in targets:
            found += [f"{name}: there is no port {e['port']}" for e in endpoints if e["port"] not in ports]
            if labels.get(spec.get("jobLabel")) not in facts.prometheus_jobs:
                found.append(f"{name}: rules know the jobs {sorted(facts.prometheus_jobs)} only")
        for endpoint in endpoints:
            key = endpoint.get("authorization", {}).get("credentials")
            secret = key and cluster.find("Secret", namespace, key["name"])
            if key and key["key"] not in (secret or {}).get("data", {}):
                found.append(f"{name}: no manifest provides Secret {key['name']} with {key['key']} in {namespace}")
    return found


def monitoring_files(cluster, facts):
    """ConfigMaps with dashboards and rules: what they hold is what deploy/ has, and Grafana's sidecar sees it. With one
    dashboard, all of them are there."""
    found, seen = [], []
    for config in cluster.of_kind("ConfigMap"):
        name, data = f"ConfigMap {config['metadata']['name']}", config.get("data", {})
        shown = config["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        known = {**facts.dashboards, **facts.rules}
        found += [f"{name}: {file} is not that of deploy/" for file in data if file in known and data[file] != known[file]]
        dashboards = [file for file in data if file in facts.dashboards]
        seen += dashboards
        if dashboards and not shown:
            found.append(f"{name}: without the label grafana_dashboard=1, Grafana's sidecar does not see it")
        found += [f"{name}: {file} is none of Grafana's dashboards" for file in data if shown and file not in dashboards]
        if len(json.dumps(config)) > APPLY_BYTES:
            found.append(f"{name}: is too large for the annotation in which kubectl apply keeps a copy")
    found += [f"the dashboard {name} is in no ConfigMap" for name in facts.dashboards if seen and name not in seen]
    found += [f"the dashboard {name} is in several ConfigMaps" for name in set(seen) if seen.count(name) > 1]
    return found


def accounts(cluster, _):
    """Nothing calls the API server: no roles, no tokens."""
    found = [f"{d['kind']} {d['metadata']['name']}: Lowgear needs no rights"
             for d in cluster.of_kind("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")]
    for pod in cluster.pods:
        account = pod.spec.get("serviceAccountName")
        if account and not cluster.find("ServiceAccount", pod.namespace, account):
            found.append(f"{pod.name}: there is no ServiceAccount {account}")
        if pod.spec.get("automountServiceAccountToken") is not False:
            found.append(f"{pod.name}: a token of Kubernetes is mounted, which nothing needs")
    return found


def security(cluster, facts):
    found = []
    for pod in cluster.pods:
        if pod.spec.get("hostPID") and not is_agent(pod) or pod.spec.get("hostNetwork"):
            found.append(f"{pod.name}: shares the node's processes or network")
        if not pod.spec.get("securityContext", {}).get("runAsNonRoot") and pod.spec["securityContext"].get("runAsUser") != 0:
            found.append(f"{pod.name}: does not say as which user it runs")
        for container in pod.containers:
            context = container.get("securityContext", {})
            allowed = ["SYS_ADMIN"] if is_agent(pod) and container["name"] == "agent" else []
            capabilities = context.get("capabilities", {})
            if capabilities.get("drop") != ["ALL"] or capabilities.get("add", []) not in ([], allowed):
                found.append(f"{pod.name}: the container {container['name']} has more capabilities than it needs")
            if context.get("privileged") or context.get("allowPrivilegeEscalation") is not False:
                found.append(f"{pod.name}: the container {container['name']} may gain privileges")
            if container["image"] != TRAINING_IMAGE and not context.get("readOnlyRootFilesystem"):
                found.append(f"{pod.name}: the container {container['name']} may write to its root")
    return found


@functools.cache
def options_of(binary, verb):
    text = subprocess.run([binary, verb, "--help-all"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<!\S)--[a-z][a-z-]*", text))


def command_lines(cluster, facts):
    """Verbs and options of `lowgear`, up to `--`, and the variables that commands name."""
    found = []
    for pod in cluster.pods:
        for container in pod.containers:
            command = container.get("command", [])
            known = {entry["name"] for entry in container.get("env", [])}
            found += [f"{pod.name}: {text} names a variable that is not set" for text in command
                      for name in re.findall(r"\$\((\w+)\)", text) if name not in known]
            if not command or not command[0].endswith("/lowgear"):
                continue
            own = command[1:command.index("--")] if "--" in command else command[1:]
            try:
                options = options_of(facts.binary, own[0])
            except subprocess.CalledProcessError:
                found.append(f"{pod.name}: there is no verb {own[0]}")
                continue
            found += [f"{pod.name}: lowgear {own[0]} has no option {text}" for text in own[1:]
                      if text.startswith("--") and text not in options]
    return found


ALL = (namespaces, images, paths, volumes, host_paths, groups, configured_ports, configured_paths, probes, services,
       addresses, policies, budgets, selectors, monitors, monitoring_files,
       accounts, security, command_lines)


def problems_of(cluster, facts):
    return [problem for check in ALL for problem in check(cluster, facts)]
