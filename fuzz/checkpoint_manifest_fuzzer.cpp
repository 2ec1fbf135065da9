/// Reads any bytes as the manifest of a checkpoint and as the pieces of one of its files; whatever is accepted must be
/// written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/core/error.h"
#include "training/launcher/checkpoint_manifest.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_manifest(std::string_view text) {
  const std::string written =
      lowgear::launcher::write_manifest(lowgear::launcher::parse_manifest(text, "checkpoint.json"));
  require(lowgear::launcher::write_manifest(lowgear::launcher::parse_manifest(written, "written.json")) == written);
}

void check_pieces(std::string_view text) {
  const auto pieces = lowgear::launcher::parse_pieces(text, "pieces");
  for (const auto& piece : pieces) {
    require(piece.end <= lowgear::launcher::part_elements(piece, "pieces"));
  }
  require(lowgear::launcher::parse_pieces(lowgear::launcher::write_pieces(pieces), "written") == pieces);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto check : {check_manifest, check_pieces}) {
    try {
      check(text);
    } catch (const lowgear::InputError&) {
      continue;
    }
  }
  return 0;
}
