// lowgear-sampler: `lowgear sample` starts it, or torchrun, srun or mpirun.
#include "training/trainer/sampler/sampling_run.h"

int main(int count, char** words) { return lowgear::trainer::run_sampler_program(count, words); }
