#!/usr/bin/env python3
"""A client of NVML in another language: nvml_python_test.py LIBRARY, the simulation's libnvidia-ml.so.1.

Declares NVML's structures itself, reads and sets simulated GPUs, and calls every function that the library exports
with arguments that make no sense.
"""
import ctypes
import os
import struct
import sys
import tempfile
import unittest

LIBRARY = sys.argv.pop(1)

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT, VERSION_MISMATCH = 6, 7, 10, 25
CODES = set(range(30)) | {999}
INITS = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"}
NOT_RETURNING_CODES = {"nvmlErrorString"}


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [(n, ctypes.c_ulonglong) for n in ("total", "reserved", "free", "used")]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class PciInfo(ctypes.Structure):
    _fields_ = [("bus_id_legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint),
                ("device", ctypes.c_uint), ("pci_device_id", ctypes.c_uint), ("pci_subsystem_id", ctypes.c_uint),
                ("bus_id", ctypes.c_char * 32)]


class FieldValue(ctypes.Structure):
    _fields_ = [("field_id", ctypes.c_uint), ("scope_id", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("value_type", ctypes.c_uint), ("result", ctypes.c_uint),
                ("value", ctypes.c_ulonglong)]


def exported_functions(path):
    """Names in the dynamic symbol table of a 64-bit ELF file that it defines itself."""
    with open(path, "rb") as file:
        data = file.read()
    sections_at, = struct.unpack_from("<Q", data, 40)
    entry_bytes, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * entry_bytes) for i in range(count)]
    dynamic_symbols = 11
    table = next(section for section in sections if section[1] == dynamic_symbols)
    names_at = sections[table[6]][4]
    names = []
    for at in range(table[4], table[4] + table[5], 24):
        name, _, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
        if section != 0:
            start = names_at + name
            names.append(data[start:data.index(b"\0", start)].decode())
    return names


def takes_device(name):
    """Whether the first argument of a function is a GPU's handle."""
    return name.startswith("nvmlDevice") and not name.startswith(("nvmlDeviceGetCount", "nvmlDeviceGetHandleBy"))


class NvmlClient(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["LOWGEAR_SIMGPU"] = os.path.join(self.folder.name, "machine")
        os.environ["LOWGEAR_SIMGPU_GPUS"] = "2xH100"
        self.nvml = ctypes.CDLL(LIBRARY)
        self.assertEqual(self.nvml.nvmlInit_v2(), SUCCESS)
        self.addCleanup(self.shut_down)
        self.gpu = ctypes.c_void_p()
        self.assertEqual(self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.gpu)), SUCCESS)

    def shut_down(self):
        while self.nvml.nvmlShutdown() == SUCCESS:
            pass

    def number(self, call, *arguments, kind=ctypes.c_uint):
        result = kind()
        self.assertEqual(getattr(self.nvml, call)(self.gpu, *arguments, ctypes.byref(result)), SUCCESS, call)
        return result.value

    def text(self, call, capacity=96):
        result = ctypes.create_string_buffer(capacity)
        self.assertEqual(getattr(self.nvml, call)(self.gpu, result, capacity), SUCCESS, call)
        return result.value.decode()

    def test_exports_nothing_but_its_interface(self):
        names = exported_functions(LIBRARY)
        self.assertIn("lowgear_simgpu_version", names)
        self.assertGreater(sum(name.startswith("nvml") for name in names), 300)
        self.assertEqual([name for name in names if not name.startswith(("nvml", "lowgear_simgpu_"))], [])

    def test_identity(self):
        self.assertEqual(self.text("nvmlDeviceGetName"), "NVIDIA H100 80GB HBM3")
        uuid = self.text("nvmlDeviceGetUUID")
        self.assertRegex(uuid, r"^GPU(-[0-9a-f]+){5}$")
        pci = PciInfo()
        self.assertEqual(self.nvml.nvmlDeviceGetPciInfo_v3(self.gpu, ctypes.byref(pci)), SUCCESS)
        for call, key in (("nvmlDeviceGetHandleByUUID", uuid.encode()),
                          ("nvmlDeviceGetHandleByPciBusId_v2", pci.bus_id),
                          ("nvmlDeviceGetHandleByPciBusId_v2", pci.bus_id_legacy)):
            found = ctypes.c_void_p()
            self.assertEqual(getattr(self.nvml, call)(key, ctypes.byref(found)), SUCCESS, key)
            self.assertEqual(found.value, self.gpu.value)
        short = ctypes.create_string_buffer(4)
        self.assertEqual(self.nvml.nvmlDeviceGetUUID(self.gpu, short, 4), INSUFFICIENT_SIZE)

    def test_lists_say_how_long_they_are(self):
        count = ctypes.c_uint(0)
        call = self.nvml.nvmlDeviceGetSupportedGraphicsClocks
        self.assertEqual(call(self.gpu, 2619, ctypes.byref(count), None), INSUFFICIENT_SIZE)
        self.assertEqual(count.value, 110)
        clocks = (ctypes.c_uint * 110)()
        self.assertEqual(call(self.gpu, 2619, ctypes.byref(count), clocks), SUCCESS)
        self.assertEqual(list(clocks), list(range(1980, 330, -15)))
        self.assertEqual(call(self.gpu, 2600, ctypes.byref(count), clocks), NOT_FOUND)

    def test_structures_of_another_version_are_refused(self):
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.gpu, ctypes.byref(memory)), SUCCESS)
        self.assertEqual(memory.total, memory.reserved + memory.free + memory.used)
        memory.version = ctypes.sizeof(MemoryV2) | 3 << 24
        self.assertEqual(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.gpu, ctypes.byref(memory)), VERSION_MISMATCH)

    def test_fields_answer_each_for_itself(self):
        fields = (FieldValue * 3)(FieldValue(186), FieldValue(83), FieldValue(100000))
        self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.gpu, 3, fields), SUCCESS)
        self.assertEqual([field.result for field in fields], [SUCCESS, SUCCESS, NOT_SUPPORTED])
        self.assertEqual([fields[0].value_type, fields[1].value_type], [1, 3])
        self.assertEqual(self.nvml.nvmlDeviceGetFieldValues(self.gpu, -1, fields), INVALID_ARGUMENT)

    def test_settings_are_for_root(self):
        expected = SUCCESS if os.geteuid() == 0 else NO_PERMISSION
        for code in (self.nvml.nvmlDeviceSetGpuLockedClocks(self.gpu, 900, 900),
                     self.nvml.nvmlDeviceResetGpuLockedClocks(self.gpu),
                     self.nvml.nvmlDeviceSetPowerManagementLimit(self.gpu, 400000),
                     self.nvml.nvmlDeviceSetPersistenceMode(self.gpu, 1)):
            self.assertEqual(code, expected)
        limit_mw = self.number("nvmlDeviceGetPowerManagementLimit")
        self.assertEqual(limit_mw, 400000 if expected == SUCCESS else 700000)
        for low, high in ((1500, 900), (900, 2**32 - 1), (0xffffff01, 900)):
            code = self.nvml.nvmlDeviceSetGpuLockedClocks(self.gpu, low, high)
            self.assertEqual(code, INVALID_ARGUMENT if expected == SUCCESS else NO_PERMISSION)

    def test_every_function_survives_senseless_arguments(self):
        nowhere = ctypes.c_void_p(0x10)  # no handle of ours: must be compared, not followed
        for name in exported_functions(LIBRARY):
            if not name.startswith("nvml") or name in INITS | NOT_RETURNING_CODES | {"nvmlShutdown"}:
                continue
            for first in (None, nowhere, self.gpu) if takes_device(name) else (None,):
                with self.subTest(call=name, first=first):
                    code = getattr(self.nvml, name)(first, None, None, None, None, None)
                    self.assertIn(code, CODES)
                    if first is nowhere and code != NOT_SUPPORTED:
                        self.assertEqual(code, INVALID_ARGUMENT)
        self.assertEqual(self.text("nvmlDeviceGetName"), "NVIDIA H100 80GB HBM3")

    def test_nothing_works_before_init_and_after_the_last_shutdown(self):
        self.assertEqual(self.nvml.nvmlInitWithFlags(0), SUCCESS)
        self.assertEqual(self.nvml.nvmlShutdown(), SUCCESS)
        self.assertEqual(self.text("nvmlDeviceGetName"), "NVIDIA H100 80GB HBM3")  # one user is left
        self.assertEqual(self.nvml.nvmlShutdown(), SUCCESS)
        self.assertEqual(self.nvml.nvmlShutdown(), UNINITIALIZED)
        for name in exported_functions(LIBRARY):
            if name.startswith("nvml") and name not in INITS | NOT_RETURNING_CODES:
                with self.subTest(call=name):
                    code = getattr(self.nvml, name)(None, None, None, None, None, None)
                    self.assertIn(code, (UNINITIALIZED, INVALID_ARGUMENT))

    def test_every_code_has_words(self):
        self.nvml.nvmlErrorString.restype = ctypes.c_char_p
        self.assertEqual(self.nvml.nvmlErrorString(NOT_SUPPORTED), b"Not Supported")
        for code in (*CODES, -1, 2**31 - 1):
            self.assertTrue(self.nvml.nvmlErrorString(code))


if __name__ == "__main__":
    unittest.main()
