"""Prints the tensors of a safetensors file, read by nothing but the description of the format: one line for each, in
the order of their names, of name, type, shape and data in hexadecimal."""
import json
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}

with open(sys.argv[1], "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()

print("metadata", json.dumps(header.pop("__metadata__", {}), sort_keys=True))
assert (8 + length) % 8 == 0, "the data is not aligned"
covered = 0
for name, tensor in sorted(header.items()):
    begin, end = tensor["data_offsets"]
    count = 1
    for dimension in tensor["shape"]:
        count *= dimension
    assert end - begin == count * SIZES[tensor["dtype"]], name
    assert begin % SIZES[tensor["dtype"]] == 0, f"{name} is not aligned"
    covered += end - begin
    print(name, tensor["dtype"], tensor["shape"], data[begin:end].hex())
assert covered == len(data), "bytes belong to no tensor"
