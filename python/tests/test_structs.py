"""Structs and kinds of units are declared twice, in lowgear.h and in Python: they have to be the same."""

import ctypes
import re
import unittest
from pathlib import Path

from lowgear import _client, _library, _units

CLIENT = Path(__file__).parents[2] / "src/client"
HEADER = CLIENT / "lowgear.h"
STRUCTS = {
    "lowgear_options": _library.Options,
    "lowgear_unit": _library.UnitStruct,
    "lowgear_decision": _library.DecisionStruct,
    "lowgear_measurement": _library.MeasurementStruct,
    "lowgear_status": _library.StatusStruct,
    "lowgear_lengths_options": _library.LengthsOptionsStruct,
    "lowgear_amounts": _library.AmountsStruct,
    "lowgear_search_options": _library.SearchOptionsStruct,
    "lowgear_search": _library.SearchStruct,
}
TYPES = {
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
    "const char*": ctypes.c_char_p,
    "const double*": ctypes.POINTER(ctypes.c_double),
}


def header():
    """lowgear.h without its comments."""
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)


def declared_kinds():
    """Name -> number of each kind of unit as lowgear.h declares them."""
    body = re.search(r"enum \{([^}]*LOWGEAR_FORWARD = [^}]*)\}", header()).group(1)
    return {name.lower(): int(number) for name, number in re.findall(r"LOWGEAR_(\w+) = (\d+)", body)}


def declared_structs():
    """Name -> [(field, type)] as lowgear.h declares them."""
    text = header()
    structs = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S):
        fields = structs[name] = []
        for declaration in filter(None, (line.strip() for line in body.split(";"))):
            kind, field, length = re.fullmatch(r"(.*[\s*])(\w+)(?:\[(\d+)\])?", declaration, flags=re.S).groups()
            fields.append((field, ctypes.c_char * int(length) if length else TYPES[kind.strip()]))
    return structs


class TestKinds(unittest.TestCase):
    def test_have_the_numbers_of_the_header(self):
        self.assertEqual(_units.KINDS, declared_kinds())
        self.assertEqual(set(_units.LETTERS), set(_units.KINDS) - {"forward_backward"})


class TestStructs(unittest.TestCase):
    def test_every_struct_has_the_fields_of_the_header(self):
        declared = declared_structs()
        self.assertEqual(set(declared), set(STRUCTS))
        for name, struct in STRUCTS.items():
            with self.subTest(name):
                self.assertEqual(list(struct._fields_), declared[name])

    def test_a_status_has_what_the_library_fills(self):
        filled = [name for name, _ in _library.StatusStruct._fields_ if name != "struct_size"]
        self.assertEqual(list(_client.Status._fields), filled)
        body = re.search(r"^lowgear_status status_of\(.*?^}", (CLIENT / "c_api" / "c_api.cpp").read_text(), re.S | re.M)[0]
        self.assertEqual(re.findall(r"result\.(\w+)", body), filled)


if __name__ == "__main__":
    unittest.main()
