#include "training/trainer/thread_ranks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

Communicators communicators(InProcessHub& hub, const protocol::JobParallel& parallel, int rank) {
  const launcher::RankPlace place = launcher::RankLayout(parallel).place_of(rank);
  Communicators ranks;
  ranks.pipeline = hub.pipeline(fmt::format("pp d{} t{}", place.dp, place.tp), place.pp);
  ranks.data = hub.group(fmt::format("dp p{} t{}", place.pp, place.tp), place.dp, parallel.dp);
  ranks.tensor = hub.group(fmt::format("tp p{} d{}", place.pp, place.dp), place.tp, parallel.tp);
  ranks.world = hub.group("world", rank, parallel.world_size());
  if (parallel.pp > 1 && (place.pp == 0 || place.pp == parallel.pp - 1)) {
    ranks.tied = hub.group(fmt::format("tied d{} t{}", place.dp, place.tp), place.pp == 0 ? 0 : 1, 2);
  }
  return ranks;
}

}  // namespace

void run_thread_ranks(const protocol::JobParallel& parallel,
                      const std::function<void(int rank, Communicators ranks)>& body) {
  InProcessHub hub;
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < parallel.world_size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        at::set_num_threads(1);
        body(rank, communicators(hub, parallel, rank));
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        hub.abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lowgear::trainer
