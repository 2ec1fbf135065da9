#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/core/error.h"
#include "client/rank/rank_environment.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Another rank has gone, or cannot be reached: this one did nothing wrong.
class PeerLost : public Error {
 public:
  using Error::Error;
};

/// A transfer that runs concurrently with the computation.
class PendingTransfer {
 public:
  virtual ~PendingTransfer() = default;
  /// Returns once the tensor may be read (a receive) or changed (a send). Throws PeerLost when the other side has gone.
  virtual void wait() = 0;
};

/// Messages between the ranks of one pipeline, which are numbered by position. The n-th send to a peer pairs with the
/// n-th receive there from here, whatever they carry: there are no tags, as NCCL ignores them. A transfer may begin
/// only when the other side takes part in it; the tensor must stay alive and unchanged until the transfer has been
/// waited for.
class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  [[nodiscard]] virtual std::unique_ptr<PendingTransfer> send(const at::Tensor& tensor, int peer) = 0;
  /// Into `tensor`, which has the shape and type of the sent one.
  [[nodiscard]] virtual std::unique_ptr<PendingTransfer> receive(const at::Tensor& tensor, int peer) = 0;
  /// Transfers until `end_group` begin together.
  virtual void begin_group() {}
  virtual void end_group() {}
};

enum class Reduction : unsigned char { sum, maximum };

/// Collective operations of a group of ranks. Every rank of the group makes the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// In place.
  [[nodiscard]] virtual std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& tensor,
                                                                          Reduction reduction) = 0;
  /// In place on rank `root`; on others `tensor` may be overwritten with anything.
  [[nodiscard]] virtual std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& tensor, int root) = 0;
  void all_reduce(const at::Tensor& tensor, Reduction reduction = Reduction::sum) {
    start_all_reduce(tensor, reduction)->wait();
  }
  /// `all` is one-dimensional and `size()` times as long as `part`; part r of it comes from rank r.
  virtual void all_gather(const at::Tensor& all, const at::Tensor& part) = 0;
  /// `all` is one-dimensional and `size()` times as long as `part`, which becomes the sum over the ranks of this rank's
  /// part of it. `all` may be overwritten with anything.
  virtual void reduce_scatter(const at::Tensor& part, const at::Tensor& all) = 0;
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
};

/// The connections of one rank to the others.
struct Communicators {
  std::unique_ptr<PointToPoint> pipeline;  ///< ranks of one pipeline, by position
  std::unique_ptr<Collective> data;        ///< replicas of this part of the model
  std::unique_ptr<Collective> tensor;      ///< ranks that share this part's layers
  std::unique_ptr<Collective> tied;        ///< first and last stage; null where this rank has neither or both
  std::unique_ptr<Collective> world;       ///< all ranks
  /// Ends the connections in order, once every rank has finished; may be empty. Nothing can be sent after it.
  std::function<void()> close;
};

/// The meeting place of a job's ranks: a file that all of them see, or a server that rank 0 (or torchrun) runs.
struct Rendezvous {
  std::filesystem::path file;  ///< used when not empty
  std::string host;
  std::uint16_t port = 0;
  bool hosted_elsewhere = false;  ///< torchrun's agent serves the store already
};

/// Reads LOWGEAR_RENDEZVOUS (a file), or MASTER_ADDR and MASTER_PORT as torchrun sets them. Throws InputError without
/// either.
[[nodiscard]] Rendezvous rendezvous_from(const Environment& environment);

/// Connects a rank with all others over TCP, with c10d's Gloo. Throws Error when not all of them come within `timeout`.
/// After that, a transfer that takes longer than `timeout`, or whose other side has gone, throws Error, and no further
/// one will work.
[[nodiscard]] Communicators connect_gloo(const launcher::RankLayout& layout, int rank, const Rendezvous& rendezvous,
                                         std::chrono::seconds timeout);

/// Connects a rank that computes on CUDA device `device` with all others, with c10d's NCCL. Tensors may also be on the
/// CPU, except between stages: they then go through the GPU. Throws Error when not all ranks come within `timeout`.
///
/// Waiting for a transfer makes the GPU's current stream wait, not the CPU. Every pair of stages has its own
/// communicator, and with it its own order of messages: a receive that waits holds up only what follows between the
/// same two ranks.
[[nodiscard]] Communicators connect_nccl(const launcher::RankLayout& layout, int rank, int device,
                                         const Rendezvous& rendezvous, std::chrono::seconds timeout);

}  // namespace lowgear::trainer
