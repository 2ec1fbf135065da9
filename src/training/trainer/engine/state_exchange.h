#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/launcher/layer_moves.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Brings what training keeps of every parameter, one number an element, from the store of one partition to that of the
/// next: to another place on this rank, or from and to the ranks of its pipeline. What moves is sent from where it is
/// and received where it belongs, without a buffer in between.
class StateExchange {
 public:
  /// From the places that `from` has to those of `to`, whose layers have moved as `moves` says; `position` is this
  /// rank's. `peers` outlives this.
  StateExchange(const ParameterStore& from, const ParameterStore& to, std::span<const launcher::LayerMove> moves,
                int position, PointToPoint& peers);

  /// Of `before`, laid out as the one store, to `after`, as the other: flat, of one type, on the device. What `after`
  /// has between parameters stays. A meeting of the ranks of the pipeline. Throws PeerLost.
  void run(const at::Tensor& before, const at::Tensor& after) const;
  /// Elements that this rank sends in a run.
  [[nodiscard]] std::int64_t sent() const;

 private:
  /// Neighbouring parameters of a block.
  struct Stretch {
    std::int64_t begin = 0;  ///< element of the buffer
    std::int64_t count = 0;
  };
  struct Copy {
    Stretch from;
    std::int64_t to = 0;
  };
  struct Message {
    Stretch part;
    int peer = 0;
    bool sends = false;
  };

  [[nodiscard]] static std::vector<Stretch> stretches_of(const ParameterStore& store, std::int64_t block);

  PointToPoint* peers_;
  std::vector<Copy> copies_;
  std::vector<Message> messages_;  ///< in the order of the layers, the same on both sides
};

}  // namespace lowgear::trainer
