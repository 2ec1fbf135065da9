#include "hardware/gpu/gpu_sensor.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "hardware/gpu/gpu.h"

namespace lowgear::gpu {
namespace {

TEST(GpuSensors, AreEachInTheTableOnce) {
  std::set<GpuFeature> features;
  std::set<std::string_view> names;
  std::set<std::string_view> metrics;
  std::size_t quantities = 0;
  for (const GpuSensor& sensor : gpu_sensors()) {
    EXPECT_TRUE(features.insert(sensor.feature).second) << name(sensor.feature);
    for (const GpuQuantity& quantity : sensor.quantities) {
      ++quantities;
      names.insert(quantity.name);
      metrics.insert(quantity.metric);
      EXPECT_TRUE(quantity.help.ends_with(".")) << quantity.name;
    }
  }
  EXPECT_EQ(names.size(), quantities);
  EXPECT_EQ(metrics.size(), quantities);
}

TEST(GpuSensors, StandInStraightAfterTheOneTheyReplace) {
  for (std::size_t i = 0; i < gpu_sensors().size(); ++i) {
    const GpuSensor& sensor = gpu_sensors()[i];
    if (sensor.stand_in_for) {
      EXPECT_EQ(gpu_sensors().at(i - 1).feature, sensor.stand_in_for) << name(sensor.feature);
    }
  }
}

TEST(GpuQuantity, IsEmptyWhereTheGpuDoesNotReportIt) {
  GpuValues values;
  values.temperature_c = 41;
  for (const GpuSensor& sensor : gpu_sensors()) {
    for (const GpuQuantity& quantity : sensor.quantities) {
      const std::optional<double> value = quantity.of(values);
      EXPECT_EQ(value.has_value(), quantity.name == "temperature_c") << quantity.name;
      EXPECT_EQ(value.value_or(41), 41) << quantity.name;
    }
  }
}

}  // namespace
}  // namespace lowgear::gpu
