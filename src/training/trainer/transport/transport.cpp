#include "training/trainer/transport/transport.h"

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::trainer {

Rendezvous rendezvous_from(const Environment& environment) {
  Rendezvous rendezvous;
  rendezvous.file = environment("LOWGEAR_RENDEZVOUS").value_or("");
  if (!rendezvous.file.empty()) return rendezvous;
  const auto host = environment("MASTER_ADDR");
  const auto port = parse_integer(environment("MASTER_PORT").value_or(""));
  if (!host || !port || *port < 1 || *port > UINT16_MAX) {
    throw InputError(
        "the ranks do not know where to meet: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port, as "
        "torchrun does, or start the ranks with lowgear");
  }
  rendezvous.host = *host;
  rendezvous.port = static_cast<std::uint16_t>(*port);
  rendezvous.hosted_elsewhere = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return rendezvous;
}

}  // namespace lowgear::trainer
