"""Stands in for nvidia-ml-py, which Debian does not have: the calls that Zeus and Perseus make, under the same
names.

The library is the one that nvidia-ml-py would load, `libnvidia-ml.so.1`.
"""

import ctypes

_library = ctypes.CDLL("libnvidia-ml.so.1")
_library.nvmlErrorString.restype = ctypes.c_char_p

NVML_SUCCESS = 0
_ERRORS = ("UNINITIALIZED", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_PERMISSION", "ALREADY_INITIALIZED", "NOT_FOUND",
           "INSUFFICIENT_SIZE", "INSUFFICIENT_POWER", "DRIVER_NOT_LOADED", "TIMEOUT", "IRQ_ISSUE", "LIBRARY_NOT_FOUND",
           "FUNCTION_NOT_FOUND", "CORRUPTED_INFOROM", "GPU_IS_LOST", "RESET_REQUIRED", "OPERATING_SYSTEM",
           "LIB_RM_VERSION_MISMATCH", "IN_USE", "MEMORY")
globals().update({f"NVML_ERROR_{name}": code for code, name in enumerate(_ERRORS, 1)}, NVML_ERROR_UNKNOWN=999)
NVML_FEATURE_DISABLED, NVML_FEATURE_ENABLED = 0, 1
NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MODULE, NVML_POWER_SCOPE_MEMORY = 0, 1, 2
NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT = 185, 186
NVML_DEVICE_ARCH_VOLTA, NVML_DEVICE_ARCH_AMPERE = 5, 7
NVML_TEMPERATURE_GPU = 0


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(_library.nvmlErrorString(value).decode())
        self.value = value


class NVMLError_NotSupported(NVMLError):
    pass


class _Value(ctypes.Union):
    _fields_ = [("uiVal", ctypes.c_uint), ("ullVal", ctypes.c_ulonglong)]


class _FieldValue(ctypes.Structure):
    _fields_ = [("fieldId", ctypes.c_uint), ("scopeId", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latencyUsec", ctypes.c_longlong), ("valueType", ctypes.c_uint), ("nvmlReturn", ctypes.c_uint),
                ("value", _Value)]


class _Temperature(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("sensor", ctypes.c_int), ("temperature", ctypes.c_int)]


def _nvmlGetFunctionPointer(name):  # by which Zeus knows the official package
    return getattr(_library, name)


def _call(name, *arguments):
    code = _nvmlGetFunctionPointer(name)(*arguments)
    if code == NVML_ERROR_NOT_SUPPORTED:
        raise NVMLError_NotSupported(code)
    if code != NVML_SUCCESS:
        raise NVMLError(code)


def _number(name, *arguments, kind=ctypes.c_uint):
    result = kind()
    _call(name, *arguments, ctypes.byref(result))
    return result.value


def _numbers(name, *arguments):
    count = ctypes.c_uint(1024)
    values = (ctypes.c_uint * count.value)()
    _call(name, *arguments, ctypes.byref(count), values)
    return list(values[:count.value])


def nvmlInit():
    _call("nvmlInit_v2")


def nvmlShutdown():
    _call("nvmlShutdown")


def nvmlDeviceGetCount():
    return _number("nvmlDeviceGetCount_v2")


def nvmlDeviceGetHandleByIndex(index):
    handle = ctypes.c_void_p()
    _call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
    return handle


def nvmlDeviceGetName(handle):
    name = ctypes.create_string_buffer(96)
    _call("nvmlDeviceGetName", handle, name, len(name))
    return name.value.decode()


def nvmlDeviceGetSupportedMemoryClocks(handle):
    return _numbers("nvmlDeviceGetSupportedMemoryClocks", handle)


def nvmlDeviceGetSupportedGraphicsClocks(handle, memory_clock_mhz):
    return _numbers("nvmlDeviceGetSupportedGraphicsClocks", handle, memory_clock_mhz)


def nvmlDeviceGetPowerManagementLimitConstraints(handle):
    low, high = ctypes.c_uint(), ctypes.c_uint()
    _call("nvmlDeviceGetPowerManagementLimitConstraints", handle, ctypes.byref(low), ctypes.byref(high))
    return low.value, high.value


def nvmlDeviceGetFieldValues(handle, fields):
    values = (_FieldValue * len(fields))(*[_FieldValue(*field) for field in fields])
    _call("nvmlDeviceGetFieldValues", handle, len(fields), values)
    return values


def nvmlDeviceGetTotalEnergyConsumption(handle):
    return _number("nvmlDeviceGetTotalEnergyConsumption", handle, kind=ctypes.c_ulonglong)


def nvmlDeviceGetTemperatureV(handle, sensor):
    temperature = _Temperature(version=ctypes.sizeof(_Temperature) | 1 << 24, sensor=sensor)
    _call("nvmlDeviceGetTemperatureV", handle, ctypes.byref(temperature))
    return temperature.temperature


def _getter(name):
    return lambda handle: _number(name, handle)


def _setter(name):
    return lambda handle, *values: _call(name, handle, *values)


for _name in ("PowerManagementLimit", "PowerManagementDefaultLimit", "PersistenceMode", "Architecture"):
    globals()["nvmlDeviceGet" + _name] = _getter("nvmlDeviceGet" + _name)
for _name in ("SetPowerManagementLimit", "SetPersistenceMode", "SetMemoryLockedClocks", "ResetMemoryLockedClocks",
              "SetGpuLockedClocks", "ResetGpuLockedClocks"):
    globals()["nvmlDevice" + _name] = _setter("nvmlDevice" + _name)
