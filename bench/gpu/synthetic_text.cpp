// synthetic_text SEED TOKENS HELD_OUT_TOKENS FOLDER: synthetic text as `lowgear data synthetic` writes it, in
// FOLDER/train.bin, and its continuation, to measure held-out losses on, in FOLDER/held-out.bin.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "training/dataset/synthetic_corpus.h"
#include "training/dataset/token_file.h"

namespace {

using namespace lowgear::dataset;  // NOLINT(google-build-using-namespace)

void write_tokens(const std::filesystem::path& path, SyntheticCorpus& corpus, std::int64_t tokens) {
  TokenFileWriter writer(path, token_type_for(kByteVocabulary));
  while (writer.token_count() < tokens) {
    const std::vector<std::int64_t> sentence = byte_ids(corpus.next_sentence());
    const auto left = static_cast<std::size_t>(tokens - writer.token_count());
    writer.append(std::span(sentence).first(std::min(left, sentence.size())));
  }
  writer.commit();
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    fmt::print(stderr, "usage: synthetic_text SEED TOKENS HELD_OUT_TOKENS FOLDER\n");
    return 2;
  }
  try {
    SyntheticCorpus corpus(std::stoull(words[1]));
    const std::filesystem::path folder = words[4];
    std::filesystem::create_directories(folder);
    write_tokens(folder / "train.bin", corpus, std::stoll(words[2]));
    write_tokens(folder / "held-out.bin", corpus, std::stoll(words[3]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
