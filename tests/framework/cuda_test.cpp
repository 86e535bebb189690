#include "framework/cuda/cuda.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/base/error.h"
#include "framework/cuda/driver.h"
#include "framework/factory/factories.h"
#include "framework/memory/cuda_memory.h"
#include "framework/memory/storage.h"
#include "tests/text.h"

namespace taper::v0::cuda {
namespace {

// Returns the message of the exception that a call throws; empty if it throws none.
template <class E, class F> std::string refusal(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

struct ReasonCase {
  const char* name;
  driver::State state;
  const char *says, *in_short;
};

TEST(CudaReason, EachStateHasItsOwnSentence) {
  const ReasonCase cases[] = {
      {"usable", {.built = true, .devices = 1}, "", ""},
      {"not built", {.built = false}, "Taper was built without CUDA", "built without CUDA"},
      {"no driver",
       {.built = true, .runtime_version = 13000, .too_old = true},
       "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
       "installed a driver from http://www.nvidia.com/Download/index.aspx",
       "no NVIDIA driver was found"},
      {"too old",
       {.built = true, .driver_version = 12020, .runtime_version = 13000, .too_old = true},
       "it serves CUDA up to 12.2, and Taper was built with CUDA 13.0",
       "the NVIDIA driver is too old"},
      {"hidden",
       {.built = true, .visible = "-1"},
       "CUDA_VISIBLE_DEVICES is '-1'",
       "CUDA_VISIBLE_DEVICES hides every GPU"},
      {"none", {.built = true}, "check that nvidia-smi lists one", "no GPU is visible"},
      {"broken",
       {.built = true, .error = "unknown error"},
       "could not be started: unknown error",
       "the NVIDIA driver could not be started"},
  };
  for (const ReasonCase& c : cases) {
    const std::string reason = driver::unavailable_reason(c.state);
    EXPECT_TRUE(contains(reason, c.says)) << c.name << ": " << reason;
    EXPECT_EQ(reason.empty(), c.state.devices > 0) << c.name;
    EXPECT_EQ(driver::unavailable_summary(c.state), c.in_short) << c.name;
  }
}

TEST(Cuda, AvailabilityCountAndReasonAgree) {
  EXPECT_EQ(is_available(), device_count() > 0);
  EXPECT_EQ(is_available(), unavailable_reason().empty());
  if (!kHasCuda) {
    EXPECT_TRUE(contains(unavailable_reason(), "built without CUDA"));
  }
  EXPECT_EQ(runtime_version().empty(), !kHasCuda);
}

TEST(Cuda, TheCpuNeedsNoGpu) {
  EXPECT_EQ(resolve("cpu"), Device());
  EXPECT_EQ(resolve("cpu:0"), Device());
}

TEST(Cuda, AGuardOnTheCpuIsRefusedWithAdvice) {
  const std::string text = refusal<ValueError>([] { DeviceGuard guard("cpu"); });
  EXPECT_TRUE(contains(text, "device \"cpu\"")) << text;
  EXPECT_THROW(DeviceGuard guard(-1), Error);
}

TEST(Cuda, ANegativeIndexIsRefusedWithTheAdviceForTheCpu) {
  const std::string advice =
      ": a negative device index does not mean the CPU (got -1); for the CPU write "
      "Device(\"cpu\"), "
      "as in x.to(\"cpu\"), and leave out ";
  EXPECT_EQ(refusal<ValueError>([] { set_device(-1); }),
            concat_to_string("set_device", advice, "set_device"));
  EXPECT_EQ(refusal<ValueError>([] { DeviceGuard guard(-1); }),
            concat_to_string("DeviceGuard", advice, "DeviceGuard"));
}

TEST(CudaVisibleDevices, TheFormIsChecked) {
  for (const char* good : {"", "0", "12", "1,2", "2,0,1", "GPU-8932f937-d72c-4106", "MIG-3a/1/0",
                           "MIG-GPU-8932f937/1/0"}) {
    EXPECT_TRUE(is_visible_devices(good)) << good;
  }
  for (const char* bad : {"-1", "01", "0,", ",0", "0,,1", "0 1", "0, 1", "1,1", "cuda:0", "GPU-",
                          "gpu-8932", "1234", "all"}) {
    EXPECT_FALSE(is_visible_devices(bad)) << bad;
    EXPECT_TRUE(contains(refusal<ValueError>([&] { set_visible_devices(bad); }),
                         "such as \"0\" or \"1,2\""))
        << bad;
  }
}

TEST(CudaVisibleDevices, AreRefusedOnceCudaWasUsed) {
  (void)is_available();
  const char* before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before ? before : "none";
  EXPECT_TRUE(contains(refusal<Error>([] { set_visible_devices("5,6"); }),
                       "CUDA has been used in this process already; visible devices can only be "
                       "chosen before"));
  const char* after = std::getenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(kept, after ? after : "none");
}

// The next test runs this one in a separate process, because the driver reads the variable only
// once.
TEST(CudaVisibleDevices, DISABLED_HideTheGpus) {
  set_visible_devices("0");
  set_visible_devices("");
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_FALSE(is_available());
  set_visible_devices("");
  EXPECT_THROW(set_visible_devices("0"), Error);
}

TEST(CudaVisibleDevices, AreAppliedBeforeTheDriverStarts) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      concat_to_string("'", program, "' --gtest_also_run_disabled_tests ",
                       "--gtest_filter=CudaVisibleDevices.DISABLED_HideTheGpus");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Cuda, TheMemorySummaryIsATable) {
  const std::string text = memory_summary();
  if (!is_available()) {
    EXPECT_EQ(text, concat_to_string("CUDA memory: none; ", unavailable_reason(), "\n"));
    return;
  }
  EXPECT_TRUE(text.starts_with(concat_to_string("CUDA memory of cuda:", current_device(), " (")));
  for (const char* name : {"allocated ", "reserved ", "unused ", "segments ", "device total "}) {
    EXPECT_TRUE(contains(text, concat_to_string("\n", name))) << text;
  }
}

TEST(Cuda, WithoutAGpuEverythingSaysWhy) {
  if (is_available()) GTEST_SKIP() << "this machine has a GPU";
  const std::string reason = unavailable_reason();
  EXPECT_EQ(refusal<AcceleratorError>([] { current_device(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { set_device(0); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { get_device_name(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { get_device_properties(0); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { synchronize(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { resolve("cuda"); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { resolve("cuda:1"); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { DeviceGuard guard("cuda"); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { Stream::create(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { Stream::current(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { Stream::external(nullptr); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { Stream().synchronize(); }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { StreamGuard guard{Stream()}; }), reason);
  EXPECT_EQ(refusal<AcceleratorError>([] { Event().record(); }), reason);
}

TEST(Cuda, WithoutAGpuTheCountersAreZero) {
  if (is_available()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(memory_allocated() + max_memory_allocated(), 0u);
  EXPECT_EQ(memory_reserved() + max_memory_reserved(), 0u);
  reset_peak_memory_stats();
  empty_cache();
}

TEST(CudaEvent, RefusalsThatNeedNoGpu) {
  const Event timed(true), other(true), plain(false);
  EXPECT_EQ(refusal<ValueError>([&] { timed.elapsed_time(other); }),
            "Both events must be recorded before calculating elapsed time.");
  EXPECT_EQ(refusal<ValueError>([&] { timed.elapsed_time(plain); }),
            "Both events must be created with timing enabled: Event(true).");
  EXPECT_TRUE(timed.query());
  timed.synchronize();
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "needs a GPU: " << unavailable_reason();
  }
};

TEST_F(Gpu, PropertiesAreFilledIn) {
  const DeviceProperties p = get_device_properties();
  EXPECT_EQ(p.name, get_device_name());
  EXPECT_GE(p.major, 5);
  EXPECT_GT(p.multi_processor_count, 0);
  EXPECT_GT(p.free_memory, 0u);
  EXPECT_LE(p.free_memory, p.total_memory);
  EXPECT_FALSE(driver_version().empty());
}

TEST_F(Gpu, CudaWithoutAnIndexIsTheCurrentDevice) {
  EXPECT_EQ(resolve("cuda"), Device(current_device()));
  EXPECT_EQ(resolve("cuda:0"), Device("cuda:0"));
}

TEST_F(Gpu, AnOrdinalThatDoesNotExistIsRefused) {
  const int missing = device_count(), before = current_device();
  const std::string text = refusal<AcceleratorError>([&] { set_device(missing); });
  EXPECT_TRUE(contains(text,
                       "CUDA error: invalid device ordinal\nGPU device may be out of range, "
                       "do you have enough GPUs?"))
      << text;
  EXPECT_TRUE(contains(text, concat_to_string("visible: ", missing))) << text;
  EXPECT_THROW(resolve(Device(missing)), AcceleratorError);
  EXPECT_THROW((void)allocate(8, Device(missing)), AcceleratorError);
  EXPECT_THROW(DeviceGuard guard{Device(missing)}, AcceleratorError);
  EXPECT_EQ(current_device(), before);
}

TEST_F(Gpu, GuardsNestAndRestore) {
  if (device_count() < 2) GTEST_SKIP() << "needs two GPUs";
  set_device(0);
  {
    const DeviceGuard outer(1);
    EXPECT_EQ(resolve("cuda"), Device(1));
    {
      const DeviceGuard inner(0);
      EXPECT_EQ(current_device(), 0);
    }
    EXPECT_EQ(current_device(), 1);
    const DeviceGuard same("cuda");
    EXPECT_EQ(current_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
  const auto fails = [] {
    const DeviceGuard guard(1);
    throw ValueError("inside");
  };
  EXPECT_THROW(fails(), ValueError);
  EXPECT_EQ(current_device(), 0);
}

TEST_F(Gpu, AStreamIsCurrentInItsGuardAndOnItsThread) {
  const Stream before = Stream::current(), made = Stream::create();
  EXPECT_EQ(before, Stream::default_stream());
  EXPECT_FALSE(made == before);
  EXPECT_FALSE(made == Stream::create());
  const auto fails = [&] {
    const StreamGuard guard(made);
    EXPECT_EQ(Stream::current(), made);
    std::thread([&] { EXPECT_EQ(Stream::current(), before); }).join();
    {
      const StreamGuard inner(before);
      EXPECT_EQ(Stream::current(), before);
    }
    EXPECT_EQ(Stream::current(), made);
    throw ValueError("inside");
  };
  EXPECT_THROW(fails(), ValueError);
  EXPECT_EQ(Stream::current(), before);
}

TEST_F(Gpu, TheHostProgramsStreamIsUsed) {
  const Stream own = Stream::create();
  const Stream same = Stream::external(own.handle());
  EXPECT_EQ(same, own);
  Tensor y;
  {
    const StreamGuard guard(same);
    EXPECT_EQ(Stream::current().handle(), own.handle());
    y = ones({1 << 20}, {.device = "cuda"}) + 1;
  }
  own.synchronize();
  EXPECT_TRUE(same.query());
  EXPECT_EQ(y.sum().item<float>(), 2 << 20);
}

TEST_F(Gpu, AGuardKeepsItsStreamAlive) {
  const StreamGuard guard(Stream::create());
  EXPECT_FALSE(Stream::current() == Stream::create());
}

TEST_F(Gpu, EventsMeasureTime) {
  Event start(true), end(true);
  start.record();
  const StoragePtr held = allocate(1 << 20, resolve("cuda"));
  end.record();
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GE(start.elapsed_time(end), 0.0);
}

}  // namespace
}  // namespace taper::v0::cuda
