"""Lists the contents of an image in SPDX 2.3 (JSON), from its unpacked packages."""

import hashlib
import json
import re
import uuid
from urllib.parse import quote

from oci_layout import iso_time

UNKNOWN = "NOASSERTION"


def identifier(name):
    return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def purl(package):
    return (f"pkg:deb/debian/{quote(package.name)}@{quote(package.version)}"
            f"?arch={package.architecture}&distro=debian-12")


def entry_of(package):
    maker = re.sub(r"\s*<.*", "", package.maintainer)
    return {"SPDXID": identifier(package.name), "name": package.name, "versionInfo": package.version,
            "supplier": f"Organization: {maker}", "downloadLocation": UNKNOWN, "filesAnalyzed": False,
            "sourceInfo": f"source package {package.source}", "licenseConcluded": UNKNOWN, "licenseDeclared": UNKNOWN,
            "copyrightText": UNKNOWN,
            "checksums": [{"algorithm": "SHA256", "checksumValue": package.sha256}],
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": purl(package)}]}


def wheel_entry(file, version):
    return {"SPDXID": identifier("lowgear-wheel"), "name": "lowgear", "versionInfo": version, "downloadLocation": UNKNOWN,
            "filesAnalyzed": False, "licenseConcluded": UNKNOWN, "licenseDeclared": "Apache-2.0", "copyrightText": UNKNOWN,
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}],
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:pypi/lowgear@{version}"}]}


def document(name, version, entries, epoch):
    contents = json.dumps(entries, sort_keys=True)
    unique = uuid.uuid5(uuid.NAMESPACE_OID, name + version + contents)
    root = {"SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": UNKNOWN,
            "filesAnalyzed": False, "primaryPackagePurpose": "CONTAINER", "licenseConcluded": UNKNOWN,
            "licenseDeclared": UNKNOWN, "copyrightText": UNKNOWN}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": root["SPDXID"]}]
    relations += [{"spdxElementId": root["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": entry["SPDXID"]}
                  for entry in entries]
    return json.dumps({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                       "name": f"{name}-{version}", "documentNamespace": f"urn:uuid:{unique}",
                       "creationInfo": {"created": iso_time(epoch), "creators": ["Tool: lowgear-images"]},
                       "packages": [root, *entries], "relationships": relations}, indent=1) + "\n"
