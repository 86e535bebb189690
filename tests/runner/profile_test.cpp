// The content of a trace, read back from its file.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autograd/ops/nn/loss_ops.h"
#include "framework/factory/factories.h"
#include "framework/profiler/profiler.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "optim/algorithms/sgd.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::json;

struct Mlp : Module {
  Child<Linear> fc1{*this, "fc1", 6, 8};
  Child<Sequential> rest{*this, "rest", ReLU(), LayerNorm(Shape{8}), Linear(8, 3)};
  Tensor forward(const Tensor& x) override { return rest(fc1(x)); }
  std::string type_name() const override { return "Mlp"; }
};

struct Trace {
  std::vector<Json> ranges;
  std::set<std::string> names;

  explicit Trace(const std::filesystem::path& file) {
    const Json all = Json::parse(read_bytes(file));
    for (const Json& e : all.at("traceEvents")) {
      if (e.at("ph") != "X") continue;
      ranges.push_back(e);
      names.insert(e.at("name").get<std::string>());
    }
  }
  void expect_names(const std::vector<std::string>& wanted) const {
    for (const std::string& name : wanted) EXPECT_TRUE(names.contains(name)) << name;
  }
  // On one thread, two ranges are nested or disjoint. Times are exact to the nanosecond.
  void expect_nested() const {
    const auto ns = [](const Json& us) { return std::llround(us.get<double>() * 1000); };
    std::map<int, std::vector<std::pair<int64_t, int64_t>>> threads;
    for (const Json& e : ranges) {
      EXPECT_GE(e.at("ts").get<double>(), 0) << e;
      EXPECT_GE(e.at("dur").get<double>(), 0) << e;
      if (e.at("pid") != 0) continue;
      const int64_t begin = ns(e.at("ts")), end = begin + ns(e.at("dur"));
      auto& open = threads[e.at("tid").get<int>()];
      while (!open.empty() && open.back().second <= begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back().second) << e;
      }
      open.push_back({begin, end});
    }
  }
};

TEST(Profiler, TracesModulesOpsAndBackwardNodes) {
  const RunDirectory at;
  for (const Device device : test::all_devices()) {
    SCOPED_TRACE(to_string(device));
    Mlp net;
    net.to(device);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    const Tensor x = randn({4, 6}, {.device = device});
    const Tensor y = zeros({4}, {.dtype = kInt64, .device = device});
    Profiler profiler;
    {
      const RecordFunction range("my \"step\"");
      cross_entropy(net(x), y).backward();
      optimizer.step();
    }
    EXPECT_TRUE(is_profiling());
    profiler.export_chrome_trace(at / "trace.json");
    EXPECT_FALSE(is_observed());
    const Trace trace(at / "trace.json");
    trace.expect_nested();
    for (const auto& [path, module] : net.named_modules()) {
      if (!path.empty()) trace.expect_names({concat_to_string("nn.Module: ", path)});
    }
    trace.expect_names({"my \"step\"", "aten::relu", "aten::linear", "aten::layer_norm",
                        "aten::cross_entropy", "AddmmBackward0", "ReluBackward0",
                        "NativeLayerNormBackward0", "AccumulateGrad", "Optimizer.step#SGD.step"});
    const auto is_relu = [&](const Json& e) {
      return e["name"] == "aten::relu" && e["pid"] == (device.is_cuda() ? 1 : 0);
    };
    const auto relu = std::ranges::find_if(trace.ranges, is_relu);
    ASSERT_NE(relu, trace.ranges.end());
    EXPECT_EQ((*relu)["args"]["module"], "rest.0");
  }
}

TEST(Profiler, IsOneAtATimeAndGoesWithItsObject) {
  {
    const Profiler first;
    EXPECT_TRUE(test::refuses<Error>([] { const Profiler second; }, "Profiler is already enabled"));
    EXPECT_TRUE(is_profiling());
  }
  EXPECT_FALSE(is_observed());
  auto ended = std::make_unique<Profiler>();
  const RecordFunction outlives("outlives its session");
  ended.reset();
  Profiler next;
  EXPECT_TRUE(test::refuses<Error>([&] { next.export_chrome_trace("/nowhere/trace.json"); },
                                   "/nowhere/trace.json: cannot create the file"));
}

TEST(Profiler, ARunTracesTheStepsThatItsConfigNames) {
  const RunDirectory at;
  write_bytes(at / "run.yaml",
              "threads: 1\n"
              "data: {type: digits, train_size: 100, test_size: 25}\n"
              "model: {type: mlp, hidden: [16]}\n"
              "optimizer: {type: adamw, lr: 0.01}\n"
              "train: {epochs: 2, batch_size: 25}\n");
  for (const Device device : test::all_devices()) {
    const std::string here = concat_to_string("device=", device),
                      out = concat_to_string(device.type() == DeviceType::kCpu);
    const auto plain = at.taper({"train", "run.yaml", here, "--out", "plain" + out});
    ASSERT_EQ(plain.code, 0) << plain.err;
    const auto traced = at.taper(
        {"train", "run.yaml", here, "--out", "traced" + out, "train.profile={steps: [3, 6]}"});
    ASSERT_EQ(traced.code, 0) << traced.err;
    EXPECT_NE(traced.err.find("traced the steps up to 6"), std::string::npos) << traced.err;
    const Trace trace(at / concat_to_string("traced", out, "/trace.json"));
    trace.expect_nested();
    trace.expect_names({"ProfilerStep#3", "ProfilerStep#6", "forward", "backward", "nn.Module: 0",
                        "enumerate(DataLoader)#Loader.next", "Optimizer.step#AdamW.step"});
    EXPECT_FALSE(trace.names.contains("ProfilerStep#2"));
    EXPECT_FALSE(trace.names.contains("ProfilerStep#7"));
    EXPECT_EQ(read_bytes(at / concat_to_string("plain", out, "/metrics.jsonl")),
              read_bytes(at / concat_to_string("traced", out, "/metrics.jsonl")));
  }
  const auto refused = at.taper({"train", "run.yaml", "train.profile={steps: [6, 3]}"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("the first step must not come after the last"), std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace taper::v0::runner
