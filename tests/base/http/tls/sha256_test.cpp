#include "base/http/tls/sha256.h"

#include <gtest/gtest.h>

namespace lowgear::http {
namespace {

/// The examples of FIPS 180-4.
TEST(Sha256, IsThatOfTheStandard) {
  Sha256 empty;
  EXPECT_EQ(empty.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 pieces;
  for (const char letter : {'a', 'b', 'c'}) pieces.add({&letter, 1});
  EXPECT_EQ(pieces.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace lowgear::http
