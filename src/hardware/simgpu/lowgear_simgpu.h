#ifndef LOWGEAR_SIMGPU_H
#define LOWGEAR_SIMGPU_H

/* Functions that only the simulated GPUs of Lowgear have, for programs in any language. The shared library
 * libnvidia-ml.so.1 of the simulation exports these functions besides NVML's. They act on the machine that the
 * environment names (LOWGEAR_SIMGPU, LOWGEAR_SIMGPU_GPUS), opened on first use and kept until the process ends.
 *
 * Every function may be called from any thread. Those that return int return one of the codes below; after a failure
 * lowgear_simgpu_error returns a message for the calling thread. None ends the process. */

/* NOLINTBEGIN: this header is C */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOWGEAR_SIMGPU_VERSION 1u

#define LOWGEAR_SIMGPU_OK 0
#define LOWGEAR_SIMGPU_INVALID 1 /* no such GPU, or an invalid value */
#define LOWGEAR_SIMGPU_FAILED 2  /* the machine cannot be opened, or the system refused */

/* Version of this interface; it exists only in a simulated libnvidia-ml.so.1. */
uint32_t lowgear_simgpu_version(void);
/* Message of this thread's last failed call; "" if none failed. Valid until this thread's next call. */
const char* lowgear_simgpu_error(void);

/* Number of GPUs of the machine. */
int lowgear_simgpu_count(int* count);
/* Index of the GPU with this UUID. */
int lowgear_simgpu_find(const char* uuid, int* index);

/* A context of this process on GPU `index`, as cuCtxCreate makes it: the GPU leaves its idle clock. Counted. */
int lowgear_simgpu_attach(int index);
int lowgear_simgpu_detach(int index);

/* Runs one kernel and blocks until it is done. `compute_s` seconds at the highest SM clock, longer at lower ones, and
 * `memory_s` seconds at any clock; loads in [0, 1] are shares of the model's compute and memory power. `elapsed_s`
 * (may be NULL) is set to the time that it ran, without waiting for another kernel to end. */
int lowgear_simgpu_run_kernel(int index, double compute_s, double memory_s, double compute_load, double memory_load,
                              double* elapsed_s);

/* Energy drawn since the machine was made, without the steps of the counter. */
int lowgear_simgpu_true_energy_j(int index, double* energy_j);
/* How often a setter changed the GPU since the machine was made. */
int lowgear_simgpu_writes(int index, uint64_t* writes);
/* The locked range of SM clocks; 0 and 0 when none is locked. */
int lowgear_simgpu_locked_sm_clocks(int index, int* min_mhz, int* max_mhz);
/* Advances virtual time. Fails in real time. */
int lowgear_simgpu_advance(double time_s);
/* The machine's time: seconds since it was made. */
int lowgear_simgpu_now_s(double* time_s);

#ifdef __cplusplus
}
#endif
/* NOLINTEND */

#endif
