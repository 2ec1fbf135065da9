#include "app/cli/terminal/table.h"

#include <gtest/gtest.h>

namespace lowgear::cli {
namespace {

TEST(AmountText, TakesTheUnitOfWhichThereIsAtLeastOne) {
  EXPECT_EQ(energy_text(2.9109e6), "2.911 MJ");
  EXPECT_EQ(energy_text(999), "999 J");
  EXPECT_EQ(energy_text(1000), "1 kJ");
  EXPECT_EQ(energy_text(5e12), "5000 GJ");
  EXPECT_EQ(energy_text(0.25), "0.25 J");
  EXPECT_EQ(energy_text(0), "0 J");
  EXPECT_EQ(energy_text(-2e3), "-2 kJ");
  EXPECT_EQ(power_text(675), "675 W");
  EXPECT_EQ(power_text(43180), "43.18 kW");
  EXPECT_EQ(power_text(1.5e6), "1.5 MW");
  EXPECT_EQ(mass_text(307.3), "307.3 g");
  EXPECT_EQ(mass_text(2.5e6), "2.5 t");
}

}  // namespace
}  // namespace lowgear::cli
