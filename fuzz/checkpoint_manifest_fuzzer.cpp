/// Reads any bytes as the manifest of a checkpoint and as the pieces of one of its files; whatever is accepted must be
/// written and read back the same.
#include <cstdint>
#include <string>

#include "checks.h"
#include "training/launcher/checkpoint_manifest.h"

namespace {

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
  const std::string_view text = text_of(data, size);
  ignore_input_error([text] { check_manifest(text); });
  ignore_input_error([text] { check_pieces(text); });
  return 0;
}
