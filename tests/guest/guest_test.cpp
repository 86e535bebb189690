// How Taper behaves as a library in a host process: what it does, and what it leaves unchanged.
// ctest runs each test in a process of its own. Where available, the leak sanitizer checks it at
// exit.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "apps/runner/runner.h"
#include "apps/runner/train/validate.h"
#include "framework/memory/cpu_allocator.h"
#include "taper.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig =
    "seed: 3\ndevice: cpu\ndata: {type: digits, train_size: 64, test_size: 16}\n"
    "model: {type: sequential, layers: [flatten, linear: 8, relu, dropout: 0.5, linear: 10]}\n"
    "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 4, batch_size: 16}\n";

long threads() { return std::distance(fs::directory_iterator("/proc/self/task"), {}); }

// Trains a network large enough to use the threads. Returns the last loss.
double train_net(uint64_t seed) {
  Generator generator(seed);
  const DrawGuard draws(generator);
  Sequential net(Linear(256, 512), GELU(), Dropout(0.5), Linear(512, 10));
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Tensor x = randn({512, 256}), y = randint(0, 10, {512});
  double last = 0;
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

class Guest : public ::testing::Test {
 protected:
  Guest() { write_bytes(at_ / "run.yaml", kConfig); }
  runner::RunConfig config(const std::vector<std::string>& overrides = {}) const {
    return runner::load_config(at_ / "run.yaml", overrides);
  }
  static std::string read_bytes(const fs::path& file) { return runner::read_bytes(file); }
  static void write_bytes(const fs::path& file, const std::string& text) {
    runner::write_bytes(file, text);
  }

  runner::RunDirectory at_;
};

TEST_F(Guest, PrintsNothingButThroughTheLoggerOfTheProgram) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  runner::train(config(), at_ / "silent");
  std::vector<std::string> heard;
  set_logger([&](LogLevel level, const std::string& message) {
    heard.push_back(concat_to_string(level == LogLevel::kInfo ? "info " : "warning ", message));
  });
  runner::train(config(), at_ / "heard");
  warn("odd");
  const Logger mine = set_logger(nullptr);
  warn("nobody hears it");
  EXPECT_EQ(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(heard.empty());
  EXPECT_EQ(heard[0].rfind("info model: ", 0), 0u) << heard[0];
  EXPECT_EQ(heard.back(), "warning odd");
  EXPECT_TRUE(mine);
  EXPECT_NE(read_bytes(at_ / "silent/log.txt").find(" info: model: "), std::string::npos);
}

TEST_F(Guest, ALoggerOfTheProgramGetsWhatMainWouldPrint) {
  std::vector<std::pair<LogLevel, std::string>> heard;
  set_logger([&](LogLevel level, const std::string& m) { heard.emplace_back(level, m); });
  std::string words[] = {"program", "train", (at_ / "run.yaml").string(), "model.hidden=3"};
  char* argv[5] = {};
  for (size_t i = 0; i < 4; ++i) argv[i] = words[i].data();
  testing::internal::CaptureStderr();
  EXPECT_EQ(runner::main(4, argv), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  set_logger(nullptr);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].first, LogLevel::kError);
  EXPECT_NE(heard[0].second.find("key 'hidden' is not valid for model"), std::string::npos)
      << heard[0].second;
}

// Destructors of static objects may log, so the logger must outlive them.
TEST(GuestLog, TakesMessagesUntilTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    std::atexit([] { warn("at the very end"); });
    const std::string head = "late: a text that is long enough for memory of its own, ";
    set_logger([head](LogLevel, const std::string& message) {
      std::fputs((head + message + "\n").c_str(), stderr);
    });
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "late: .* of its own, at the very end");
}

TEST(GuestLog, AScopeMayChangeAMessage) {
  std::vector<std::string> heard;
  set_logger([&](LogLevel, const std::string& message) { heard.push_back(message); });
  {
    const LogGuard outer([](LogLevel, std::string& m) { return m += ", outer", true; });
    const LogGuard inner([](LogLevel, std::string& m) { return m += ", inner", true; });
    warn("odd");
  }
  set_logger(nullptr);
  EXPECT_EQ(heard, std::vector<std::string>{"odd, inner, outer"});
}

TEST(GuestLog, AScopeHearsItsThreadAlone) {
  std::atomic<int> heard{0}, mine{0};
  set_logger([&](LogLevel, const std::string&) { ++heard; });
  {
    const LogGuard all([&](LogLevel, const std::string&) { return ++mine, true; });
    const LogGuard none(
        [&](LogLevel level, const std::string&) { return level == LogLevel::kWarning; });
    log_info("kept");
    warn("goes on");
    std::thread([] { warn("of another thread"); }).join();
  }
  warn("afterwards");
  set_logger(nullptr);
  EXPECT_EQ(mine, 1);
  EXPECT_EQ(heard, 3);
}

// Returns, as text, the state of the host that a run may change.
std::string host_state() {
  const PhiloxKey draws = default_generator().state();
  return concat_to_string(get_num_threads(), " threads, ", get_float32_matmul_precision(),
                          ", gradients ", is_grad_enabled(), ", autocast ",
                          autocast_state().cpu.has_value(), ", draws ", draws.seed, " ",
                          draws.stream);
}

TEST_F(Guest, GetsBackWhatARunHasChanged) {
  struct Watcher : runner::Observer {
    bool on_step(int64_t, double, double) override {
      during = host_state();
      if (throws) throw std::runtime_error("of the host");
      return true;
    }
    bool throws = false;
    std::string during;
  } watcher;
  const auto set = config({"threads=1", "train.precision=tf32", "seed=9"});
  const int threads = get_num_threads();
  set_num_threads(2);
  manual_seed(5);
  const std::string before = host_state();
  runner::train(set, at_ / "whole", {.observer = &watcher});
  EXPECT_EQ(host_state(), before);
  EXPECT_EQ(watcher.during.rfind("1 threads, high, ", 0), 0u) << watcher.during;
  watcher.throws = true;
  EXPECT_ANY_THROW(runner::train(set, at_ / "thrown", {.observer = &watcher}));
  EXPECT_EQ(host_state(), before);
  const std::pair<const char*, std::function<void()>> others[] = {
      {"dry_run", [&] { runner::dry_run(set); }},
      {"validate", [&] { runner::validate(set); }},
      {"open_run", [&] { runner::open_run(at_ / "whole"); }},
      {"predict", [&] {
         runner::open_run(at_ / "whole").predict(zeros({1, 1, 28, 28}, {.dtype = kUInt8}));
       }}};
  for (const auto& [name, call] : others) {
    call();
    EXPECT_EQ(host_state(), before) << name;
  }
  set_num_threads(threads);
}

TEST_F(Guest, TrainsWithinItsNoGradGuardAndAutocast) {
  runner::train(config(), at_ / "plain");
  {
    const NoGradGuard no_grad;
    const AutocastGuard half(DeviceType::kCpu, kBFloat16);
    runner::train(config(), at_ / "guarded");
    EXPECT_FALSE(is_grad_enabled());
  }
  for (const char* file : {"metrics.jsonl", "model.safetensors"}) {
    EXPECT_EQ(read_bytes(at_ / "plain" / file), read_bytes(at_ / "guarded" / file)) << file;
  }
}

TEST_F(Guest, ReadsOfTrainOptionsAndNotOfACommandLine) {
  struct Stopper : runner::Observer {
    bool on_step(int64_t, double, double) override { return source.request_stop(), true; }
    std::stop_source source;
  } stopper;
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string stopped = message([&] {
    runner::train(config(), at_ / "r", {.observer = &stopper, .stop = stopper.source.get_token()});
  });
  EXPECT_NE(stopped.find("which is saved; continue with TrainOptions.resume = \"auto\""),
            std::string::npos)
      << stopped;
  write_bytes(at_ / "foreign", "");
  const std::string messages[] = {
      stopped,
      message([&] { config({"train.epochs=no"}); }),
      message([&] { runner::train(config({"optimizer.lr=1"}), at_ / "r", {.resume = "last"}); }),
      message([&] { runner::train(config(), at_ / "none", {.resume = "last"}); }),
      message([&] { runner::train(config(), at_ / "none", {.resume = "best"}); }),
      message([&] { runner::train(config(), at_ / "foreign"); }),
      message([&] { runner::train(config(), at_ / ""); }),
  };
  for (const std::string& text : messages) {
    EXPECT_NE(text, "");
    EXPECT_EQ(text.find("--"), std::string::npos) << text;
    EXPECT_EQ(text.find("command line"), std::string::npos) << text;
  }
}

TEST_F(Guest, TakesNoSignals) {
  struct Watcher : runner::Observer {
    bool on_step(int64_t, double, double) override {
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXFSZ}) {
        struct sigaction now {};
        sigaction(number, nullptr, &now);
        EXPECT_EQ(now.sa_handler, SIG_DFL) << number;
      }
      return true;
    }
  } watcher;
  runner::train(config(), at_ / "r", {.observer = &watcher});
}

TEST_F(Guest, EndsARunWhereItsProgramAsksAndGoesOnLater) {
  struct Stopper : runner::Observer {
    bool on_step(int64_t step, double, double) override {
      if (step == 3) source.request_stop();  // seen after the next step
      return true;
    }
    std::stop_source source;
  } stopper;
  EXPECT_TRUE(test::refuses<Error>(
      [&] {
        runner::train(config(), at_ / "r",
                      {.observer = &stopper, .stop = stopper.source.get_token()});
      },
      "ended by its program in the evaluation after step 4 of 16"));
  runner::train(config(), at_ / "r", {.resume = "auto"});
  runner::train(config(), at_ / "whole");
  EXPECT_EQ(read_bytes(at_ / "r/metrics.jsonl"), read_bytes(at_ / "whole/metrics.jsonl"));
}

// The types are those of <taper/runner.h>, each with its exit code.
TEST_F(Guest, ACancelledRunIsToldFromADivergedOneAndFromAWrongConfig) {
  const auto ending = [&](const std::vector<std::string>& overrides, bool is_cancelled) {
    std::stop_source source;
    if (is_cancelled) source.request_stop();
    try {
      runner::train(config(overrides), at_ / "r", {.stop = source.get_token()});
    } catch (const runner::Interrupted& error) {
      return concat_to_string("cancelled, ", int(error.code));
    } catch (const runner::Diverged& error) {
      return concat_to_string("diverged, ", int(error.code));
    } catch (const runner::ConfigError& error) {
      return concat_to_string("wrong, ", int(error.code));
    } catch (const runner::RunError& error) {
      return concat_to_string("other, ", int(error.code));
    }
    return std::string("done");
  };
  EXPECT_EQ(ending({}, false), "done");
  EXPECT_EQ(ending({}, true), concat_to_string("cancelled, ", int(runner::kExitInterrupted)));
  EXPECT_EQ(ending({"optimizer.lr=1e30"}, false),
            concat_to_string("diverged, ", int(runner::kExitData)));
  EXPECT_EQ(ending({"train.epocs=1"}, false),
            concat_to_string("wrong, ", int(runner::kExitConfig)));
}

// An exception of a callback reaches the host unchanged.
TEST_F(Guest, AnExceptionOfItsOwnCallbackKeepsItsType) {
  struct Odd : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  struct Thrower : runner::Observer {
    bool on_step(int64_t, double, double) override { throw Odd("mine"); }
  };
  runner::register_callback<runner::NoOptions>(
      "thrower", [](const runner::NoOptions&, const auto&) { return std::make_unique<Thrower>(); });
  EXPECT_THROW(runner::train(config({"callbacks=[thrower]"}), at_ / "r"), Odd);
}

TEST(GuestThreads, NoneIsLeftAndTheNumberIsTheProgramsToSay) {
  // the thread sanitizer starts its own thread together with the first one
  std::thread([] {}).join();
  const long before = threads();
  set_num_threads(3);
  const double loss = train_net(1);
  EXPECT_GT(threads(), before);
  EXPECT_LE(threads(), before + 2);
  set_num_threads(1);
  EXPECT_EQ(threads(), before);
  EXPECT_EQ(train_net(1), loss);
  EXPECT_EQ(threads(), before);
}

TEST(GuestThreads, TwoTrainingsInTwoThreadsAreAsTwoAlone) {
  set_num_threads(2);
  const double first = train_net(1), second = train_net(2);
  double together[2] = {};
  std::thread other([&] { together[1] = train_net(2); });
  together[0] = train_net(1);
  other.join();
  EXPECT_EQ(together[0], first);
  EXPECT_EQ(together[1], second);
}

TEST_F(Guest, TwoRunsInTwoThreadsAreAsTwoAlone) {
  const auto second = config({"seed=4"});
  runner::train(config(), at_ / "a");
  runner::train(second, at_ / "b");
  std::thread other([&] { runner::train(second, at_ / "b2"); });
  runner::train(config(), at_ / "a2");
  other.join();
  for (const char* name : {"a", "b"}) {
    for (const char* file : {"metrics.jsonl", "model.safetensors"}) {
      EXPECT_EQ(read_bytes(at_ / name / file), read_bytes(at_ / concat_to_string(name, "2") / file))
          << name;
    }
  }
}

std::atomic<int> blocks{0}, asked{0};
std::atomic<bool> misaligned{false};

TEST(GuestMemory, ComesFromTheProgramsAllocatorAndGoesBack) {
  if (cpu::memory_stats().peak > 0) GTEST_SKIP() << "needs a process of its own; ctest starts one";
  set_cpu_allocator({[](size_t nbytes, size_t align) noexcept -> void* {
                       ++blocks, ++asked;
                       return std::aligned_alloc(align, (nbytes + align - 1) / align * align);
                     },
                     [](void* block, size_t align) noexcept {
                       --blocks;
                       if (reinterpret_cast<uintptr_t>(block) % align != 0) misaligned = true;
                       std::free(block);
                     }});
  std::thread([] { train_net(1); }).join();
  EXPECT_GT(asked, 50);
  set_num_threads(1);
  cpu::empty_cache();
  EXPECT_EQ(blocks, 0);
  EXPECT_FALSE(misaligned);
  EXPECT_TRUE(test::refuses<Error>([] { set_cpu_allocator({}); }, "set_cpu_allocator: "));
}

}  // namespace
}  // namespace taper::v0
