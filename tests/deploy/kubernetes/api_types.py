"""What the fields of Kubernetes' objects are: those of its own API by the package python3-kubernetes, those of custom
resources by crd_types.json. Everything that is not known is a problem."""

import functools
import json
import re
from pathlib import Path

import kubernetes.client.models as models

CRDS = json.loads((Path(__file__).parent / "crd_types.json").read_text())
BUILT_IN = {
    "v1/Namespace": "V1Namespace", "v1/Service": "V1Service", "v1/ServiceAccount": "V1ServiceAccount",
    "v1/ConfigMap": "V1ConfigMap", "v1/Secret": "V1Secret", "apps/v1/DaemonSet": "V1DaemonSet",
    "apps/v1/StatefulSet": "V1StatefulSet", "batch/v1/Job": "V1Job",
    "networking.k8s.io/v1/NetworkPolicy": "V1NetworkPolicy", "policy/v1/PodDisruptionBudget": "V1PodDisruptionBudget",
}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


@functools.cache
def fields_of(type_name):
    """The fields of a type as {name: (type, whether it is required)}; None for a type that is not known."""
    if type_name in CRDS["types"]:
        return {name: (kind.removesuffix("!"), kind.endswith("!")) for name, kind in CRDS["types"][type_name].items()}
    model = getattr(models, type_name, None)
    if model is None:
        return None
    required = {"V1Container": {"name", "image"}}.get(type_name, set()) | required_by(model)
    return {wire: (model.openapi_types[name], wire in required) for name, wire in model.attribute_map.items()}


def required_by(model):
    """A model refuses None for a required field, one after the other."""
    given = {}
    while True:
        try:
            model(**given)
            return {model.attribute_map[name] for name in given}
        except ValueError as error:
            found = re.search(r"Invalid value for `(\w+)`, must not be `None`", str(error))
            if not found or found[1] in given:
                return {model.attribute_map[name] for name in given}
            given[found[1]] = "given"


def problems(value, type_name, where):
    """What is wrong with the value as one of the type, each as text that begins with where it is."""
    if type_name == "object":  # a number or text: ports, percentages
        return [] if isinstance(value, (int, str)) and not isinstance(value, bool) else [f"{where}: neither number nor text"]
    if type_name in PLAIN:
        right = isinstance(value, PLAIN[type_name]) and (type_name == "bool" or not isinstance(value, bool))
        return [] if right else [f"{where}: {value!r} is no {type_name}"]
    if nested := re.fullmatch(r"list\[(.+)\]", type_name):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [p for i, item in enumerate(value) for p in problems(item, nested[1], f"{where}[{i}]")]
    if nested := re.fullmatch(r"dict\(str, (.+)\)", type_name):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no map"]
        return [p for key, item in value.items() for p in problems(item, nested[1], f"{where}.{key}")]
    return problems_of_fields(value, type_name, where)


def problems_of_fields(value, type_name, where):
    fields = fields_of(type_name)
    if fields is None:
        return [f"{where}: the type {type_name} is not known"]
    if not isinstance(value, dict):
        return [f"{where}: {value!r} is no {type_name}"]
    found = [f"{where}.{name}: there is no such field in {type_name}" for name in value if name not in fields]
    found += [f"{where}.{name}: is required" for name, (_, required) in fields.items() if required and name not in value]
    for name in value:
        if name in fields:
            found += problems(value[name], fields[name][0], f"{where}.{name}")
    return found


def problems_of_object(document):
    kind = f"{document.get('apiVersion')}/{document.get('kind')}"
    type_name = BUILT_IN.get(kind) or CRDS["kinds"].get(kind)
    where = f"{document.get('kind')} {document.get('metadata', {}).get('name')}"
    if type_name is None:
        return [f"{where}: the kind {kind} is not known"]
    return problems(document, type_name, where)
