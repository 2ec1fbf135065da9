// A library that is no NVML.
extern "C" int something_else() { return 1; }
