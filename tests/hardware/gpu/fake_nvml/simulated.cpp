// The mark of a simulation.
extern "C" const char* lowgear_simgpu_version() { return "test"; }
