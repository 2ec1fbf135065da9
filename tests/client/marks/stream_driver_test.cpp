#include "client/marks/stream_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "client/fake_cuda/loaded_fake_cuda.h"

namespace lowgear::client {

namespace {

TEST(KnownStreams, KeepTheirNumbers) {
  KnownStreams streams;
  int first = 0;
  int second = 0;
  int third = 0;
  EXPECT_TRUE(streams.use(&first, 2));
  EXPECT_EQ(streams.number(), 0);
  EXPECT_TRUE(streams.use(&second, 2));
  EXPECT_EQ(streams.number(), 1);
  EXPECT_FALSE(streams.use(&third, 2));
  EXPECT_EQ(streams.stream(), &second) << "the one before stays";
  EXPECT_TRUE(streams.use(&first, 2));
  EXPECT_EQ(streams.number(), 0);
  EXPECT_EQ(streams.stream(), &first);
}

using testing::HasSubstr;

class CudaStreamDriverTest : public testing::Test {
 protected:
  LoadedFakeCuda cuda_{LOWGEAR_FAKE_CUDA};
  StreamDriver::Stream stream_ = &cuda_;
};

TEST_F(CudaStreamDriverTest, HasTheGpuWriteInTheOrderOfItsWork) {
  const auto driver = open_cuda_stream_driver(cuda_.path());
  ASSERT_GE(driver->words().size(), 256);
  EXPECT_EQ(driver->words()[5], 0);
  EXPECT_EQ(driver->write(stream_, 5, 41), StreamDriver::kWritten);
  EXPECT_EQ(driver->write(stream_, 6, 42), StreamDriver::kWritten);
  EXPECT_EQ(driver->words()[5], 0) << "the GPU has not come to it";
  cuda_.work(1);
  EXPECT_EQ(driver->words()[5], 41);
  EXPECT_EQ(driver->words()[6], 0);
  cuda_.work(1);
  EXPECT_EQ(driver->words()[6], 42);
  EXPECT_EQ(cuda_.count("fills"), 0);
}

TEST_F(CudaStreamDriverTest, FillsMemoryWhereStreamsWriteNothing) {
  const auto driver = open_cuda_stream_driver(cuda_.path());
  cuda_.set("write_result", 801);
  EXPECT_EQ(driver->write(stream_, 0, 1), StreamDriver::kWritten);
  EXPECT_EQ(driver->write(stream_, 0, 2), StreamDriver::kWritten);
  EXPECT_EQ(cuda_.count("writes"), 1) << "asked once";
  EXPECT_EQ(cuda_.count("fills"), 2);
  cuda_.work(2);
  EXPECT_EQ(driver->words()[0], 2);
}

TEST_F(CudaStreamDriverTest, SaysWhatTheDriverRefused) {
  const auto driver = open_cuda_stream_driver(cuda_.path());
  cuda_.set("write_result", 700);
  EXPECT_EQ(driver->write(stream_, 0, 1), 700);
  EXPECT_EQ(driver->describe(700), "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  EXPECT_EQ(driver->describe(4), "CUDA error 4");
}

TEST_F(CudaStreamDriverTest, LeavesAStreamAloneThatIsCaptured) {
  const auto driver = open_cuda_stream_driver(cuda_.path());
  cuda_.set("capturing", 1);
  EXPECT_EQ(driver->write(stream_, 0, 1), StreamDriver::kCaptured);
  EXPECT_EQ(cuda_.count("waiting"), 0);
  cuda_.set("capturing", 0);
  cuda_.set("capture_result", 906);
  EXPECT_EQ(driver->write(stream_, 0, 1), StreamDriver::kCaptured) << "another stream is, and this is the default one";
  cuda_.set("capture_result", 700);
  EXPECT_EQ(driver->write(stream_, 0, 1), 700) << "no capture, but a failure";
  EXPECT_EQ(cuda_.count("waiting"), 0);
  cuda_.set("capture_result", 0);
  EXPECT_EQ(driver->write(stream_, 0, 1), StreamDriver::kWritten);
}

std::string why_not(const std::string& file) {
  return error_of<Error>([&] { (void)open_cuda_stream_driver(file); });
}

TEST_F(CudaStreamDriverTest, SaysWhyItCannotBeUsed) {
  EXPECT_EQ(why_not(cuda_.path()), "no error");
  EXPECT_THAT(why_not("/no/such/libcuda.so"), HasSubstr("/no/such/libcuda.so"));
  EXPECT_THAT(why_not("libc.so.6"), HasSubstr("lacks functions"));
  cuda_.set("context", 0);
  EXPECT_THAT(why_not(cuda_.path()), HasSubstr("after the framework"));
}

}  // namespace

}  // namespace lowgear::client
