// A program that has an spdlog of its own, with a registered logger of the same name as Taper's.
#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <taper/runner.h>
#include <taper/taper.h>

namespace {

namespace fs = std::filesystem;

// The level differs from that of Taper's loggers, so a shared logger would be noticed.
struct Host {
  std::ostringstream text;
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>(
      "taper", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));

  Host() {
    spdlog::register_logger(logger);
    spdlog::set_default_logger(logger);
    spdlog::set_pattern("host %l: %v");
    logger->set_level(spdlog::level::critical);
  }
  ~Host() { spdlog::shutdown(); }
};

int run(const std::string& out) {
  std::string words[] = {"program",           "train",           CONFIG,  "train.steps=2",
                         "train.epochs=null", "log.level=debug", "--out", out};
  char* argv[9] = {};
  for (size_t i = 0; i < 8; ++i) argv[i] = words[i].data();
  return taper::runner::main(8, argv);
}

TEST(OwnLogger, StaysAsItIsWhileTaperLogsByItself) {
  const fs::path out = fs::current_path() / "own_logger";
  Host host;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(out.string()), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("model: "), std::string::npos);
  EXPECT_TRUE(fs::exists(out / "log.txt"));
  EXPECT_EQ(spdlog::get("taper"), host.logger);
  EXPECT_EQ(host.logger->sinks().size(), 1u);
  EXPECT_EQ(host.logger->level(), spdlog::level::critical);
  spdlog::critical("mine");
  EXPECT_EQ(host.text.str(), "host critical: mine\n");
}

TEST(OwnLogger, GetsTheMessagesThatItsProgramPassesOn) {
  const fs::path out = fs::current_path() / "passed_on";
  Host host;
  host.logger->set_level(spdlog::level::trace);
  const taper::Logger before =
      taper::set_logger([&](taper::LogLevel level, const std::string& message) {
        host.logger->log(spdlog::level::level_enum(int(level)), "{}", message);
      });
  testing::internal::CaptureStderr();
  const int code = run(out.string());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  taper::set_logger(before);
  ASSERT_EQ(code, 0);
  EXPECT_NE(host.text.str().find("host info: model: "), std::string::npos) << host.text.str();
  EXPECT_TRUE(fs::exists(out / "log.txt"));
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
