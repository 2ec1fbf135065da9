#pragma once

#include "estimating/estimator/job/training_job.h"

/// What a job's offload moves between a GPU and the memory of its CPU, and the update there.

namespace lowgear::estimator {

/// Bytes in each direction.
struct HostTraffic {
  double to_host = 0;
  double to_gpu = 0;
};

/// Of a block in the passes of one microbatch.
struct BlockTraffic {
  HostTraffic forward;
  HostTraffic backward;
};

[[nodiscard]] BlockTraffic layer_traffic(const TrainingJob& job);
/// Of the token embedding, and of the output matrix.
[[nodiscard]] BlockTraffic token_matrix_traffic(const TrainingJob& job);

/// Time of the transfers, both directions at once. Copy engines do them, which products do not notice: beside two
/// copies of 1 GiB they took 1 % longer on an H200.
[[nodiscard]] double transfer_s(const HostMemory& host, const HostTraffic& traffic);

/// Whether the CPUs update the weights.
[[nodiscard]] bool updates_on_host(const TrainingJob& job);

/// Time of an update of so many parameters there, with the transfers before and after it.
[[nodiscard]] double host_update_s(const TrainingJob& job, double parameters);

/// For the user: the bandwidths that the estimate rests on. The job offloads something.
[[nodiscard]] std::string offload_note(const TrainingJob& job);

}  // namespace lowgear::estimator
