#include "server/http/event_hub.h"

#include <gtest/gtest.h>

#include "server/server_fakes.h"

namespace lowgear::server {
namespace {

TEST(EventHub, SendsEachOneWhatItWatches) {
  EventHub hub;
  EXPECT_FALSE(hub.has_listeners());
  const auto all = std::make_shared<HeldStream>();
  const auto one = std::make_shared<HeldStream>();
  hub.add(all, "");
  hub.add(one, "j-1");
  EXPECT_TRUE(hub.has_listeners());
  hub.send("job", "j-1", {{"a", 1}});
  hub.send("job", "j-2", {{"b", 2}});
  EXPECT_EQ(all->text, "");
  hub.flush();
  EXPECT_EQ(one->text, "event: job\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(all->text, "event: job\ndata: {\"a\":1}\n\nevent: job\ndata: {\"b\":2}\n\n");
  hub.flush();
  EXPECT_EQ(one->text, "event: job\ndata: {\"a\":1}\n\n");
}

TEST(EventHub, ForgetsThoseWhoHaveGone) {
  EventHub hub;
  const auto stream = std::make_shared<HeldStream>();
  hub.add(stream, "");
  stream->is_closed = true;
  hub.send("job", "j", {});
  hub.flush();
  EXPECT_EQ(stream->text, "");
  EXPECT_FALSE(hub.has_listeners());
  EXPECT_EQ(stream.use_count(), 1);
}

TEST(EventHub, KeepsAnEventOnOneLineWhateverItsTextHolds) {
  EventHub hub;
  const auto stream = std::make_shared<HeldStream>();
  hub.add(stream, "");
  hub.send("decision", "j", {{"reason", "a\n\ndata: b\xff"}});
  hub.flush();
  EXPECT_EQ(std::ranges::count(stream->text, '\n'), 3);
}

}  // namespace
}  // namespace lowgear::server
