/* Stands in front of the simulation's NVML, to which it is linked, and changes the energy counter alone, while the file
 * COUNTER_DOUBLE_WHILE exists. COUNTER_DOUBLE says how: freeze, jump, fall, scale (by COUNTER_DOUBLE_BY), none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSuccess = 0, kNotSupported = 3, kMostGpus = 16 };

typedef int (*ReadEnergy)(void* device, unsigned long long* energy_mj);

struct Counter {
  void* device;
  int spoilt;
  unsigned long long at_mj; /* when it began to be spoilt */
};

static struct Counter* counter_of(void* device) {
  static struct Counter counters[kMostGpus];
  int i = 0;
  while (counters[i].device != NULL && counters[i].device != device && i < kMostGpus - 1) ++i;
  counters[i].device = device;
  return &counters[i];
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* energy_mj) {
  const ReadEnergy real = (ReadEnergy)dlsym(RTLD_NEXT, "nvmlDeviceGetTotalEnergyConsumption");
  const int code = real(device, energy_mj);
  const char* mode = getenv("COUNTER_DOUBLE");
  const char* file = getenv("COUNTER_DOUBLE_WHILE");
  struct Counter* counter = counter_of(device);
  if (code != kSuccess || mode == NULL || file == NULL || access(file, F_OK) != 0) {
    counter->spoilt = 0;
    return code;
  }
  if (!counter->spoilt) {
    counter->spoilt = 1;
    counter->at_mj = *energy_mj;
  }
  const unsigned long long since_mj = *energy_mj - counter->at_mj;
  if (strcmp(mode, "freeze") == 0) *energy_mj = counter->at_mj;
  if (strcmp(mode, "jump") == 0) *energy_mj += 1000000000ULL;
  if (strcmp(mode, "fall") == 0) *energy_mj = since_mj;
  if (strcmp(mode, "scale") == 0) {
    *energy_mj = counter->at_mj + (unsigned long long)((double)since_mj * atof(getenv("COUNTER_DOUBLE_BY")));
  }
  return strcmp(mode, "none") == 0 ? kNotSupported : kSuccess;
}
