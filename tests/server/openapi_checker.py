"""Says whether requests and answers are what an OpenAPI document promises. Knows the part of JSON Schema that ours
uses, and refuses a document that uses more, so that nothing goes unchecked."""

import re

WORDS = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "minimum", "maximum",
         "minLength", "maxLength", "minItems", "maxItems", "minProperties", "oneOf", "allOf", "$ref", "description",
         "default", "examples"}
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_kind(value, kind):
    if kind in ("number", "integer"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (kind == "number" or float(value).is_integer())
    return isinstance(value, KINDS[kind])


class OpenApi:
    def __init__(self, document):
        self.document = document
        self.used = set()  # (method, path, status) that were checked

    def resolve(self, node):
        while "$ref" in node:
            found = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def problems(self, value, schema, where="$"):
        """What is wrong with the value, as texts that begin with the place."""
        unknown = set(schema) - WORDS
        if unknown:
            raise AssertionError(f"the checker does not know {unknown}")
        if "$ref" in schema:
            return self.problems(value, self.resolve(schema), where)
        if "oneOf" in schema:
            found = [self.problems(value, option, where) for option in schema["oneOf"]]
            return [] if sum(not each for each in found) == 1 else [f"{where}: is none, or several, of {found}"]
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(is_kind(value, kind) for kind in kinds):
            return [f"{where}: {value!r} is not a {' or '.join(kinds)}"]
        found = [problem for part in schema.get("allOf", []) for problem in self.problems(value, part, where)]
        if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
            found.append(f"{where}: {value!r} is not among {schema.get('enum', [schema.get('const')])}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value < schema.get("minimum", value) or value > schema.get("maximum", value):
                found.append(f"{where}: {value} is out of range")
        elif isinstance(value, (str, list)):
            low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
            if not schema.get(low, 0) <= len(value) <= schema.get(high, len(value)):
                found.append(f"{where}: has a length of {len(value)}")
        if isinstance(value, list):
            for index, item in enumerate(value):
                found += self.problems(item, schema.get("items", {}), f"{where}[{index}]")
        if isinstance(value, dict):
            found += self.object_problems(value, schema, where)
        return found

    def object_problems(self, value, schema, where):
        members = schema.get("properties", {})
        found = [f"{where}: lacks {name}" for name in schema.get("required", []) if name not in value]
        if len(value) < schema.get("minProperties", 0):
            found.append(f"{where}: has {len(value)} members")
        for name, member in value.items():
            if name in members:
                found += self.problems(member, members[name], f"{where}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{where}: has {name}")
        return found

    def require(self, value, schema_name):
        found = self.problems(value, {"$ref": f"#/components/schemas/{schema_name}"})
        if found:
            raise AssertionError(f"no {schema_name}: {found[:3]}")

    def path_of(self, path):
        """The document's path that a request's path has the form of."""
        for pattern in self.document["paths"]:
            if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")),
                            path):
                return pattern
        return None

    def check(self, method, path, status, media, body):
        """Raises AssertionError unless the operation promises such an answer. `body` is parsed where it is JSON."""
        pattern = self.path_of(path)
        operation = self.document["paths"].get(pattern, {}).get(method.lower())
        if operation is None:
            raise AssertionError(f"{method} {path} is not in the document")
        if str(status) not in operation["responses"]:
            raise AssertionError(f"{method} {pattern}: status {status} is not in the document: {body}")
        self.used.add((method.lower(), pattern, str(status)))
        content = self.resolve(operation["responses"][str(status)]).get("content")
        if content is None:
            found = [] if not body else ["there is a body"]
        elif media.split(";")[0] not in content:
            found = [f"{media} is not a content type of it"]
        else:
            found = self.problems(body, content[media.split(";")[0]]["schema"])
        if found:
            raise AssertionError(f"{method} {pattern} {status}: {found[:3]}")

    def takes(self, method, path, body):
        """Whether the operation's request schema allows the body."""
        operation = self.document["paths"][self.path_of(path)][method.lower()]
        return not self.problems(body, operation["requestBody"]["content"]["application/json"]["schema"])
