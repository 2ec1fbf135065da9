// lowgear-trainer: one rank of a training job. `lowgear train` starts it, or torchrun, srun or mpirun.
#include "training/trainer/worker.h"

int main(int count, char** words) { return lowgear::trainer::run_worker(count, words); }
