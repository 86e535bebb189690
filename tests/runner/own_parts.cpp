// The program `taper` with an additional optimizer, callbacks and layers for configs:
//
//   optimizer: {type: lookahead, lr: 0.1, k: 5}
//   callbacks: [tell: {until: 20}]
//   model: {type: sequential, layers: [flatten, spoilt, linear: 10]}
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "apps/runner/runner.h"
#include "framework/factory/factories.h"
#include "modules/members.h"
#include "tests/optim/own_optimizers.h"

using namespace taper;

struct TellOptions {
  int64_t until = 0;

  template <class V> void describe(V& v) {
    v("until", until, kCountOrNone, "step after which the run ends; 0: none");
  }
};

// Writes the events that it observes to RUN.told, next to the run.
struct Tell : runner::Observer {
  Tell(const TellOptions& o, const runner::CallbackSite& at)
      : options(o), out(at.dir.string() + ".told") {}

  void on_start(Module& model) override { out << "start " << model.num_parameters() << "\n"; }
  bool on_step(int64_t step, double, double) override {
    ++steps;
    return step != options.until;
  }
  void on_eval(int64_t step, const std::string& split, const runner::Metrics& m) override {
    out << "eval " << step << " " << split << " " << m["accuracy"] << "\n";
  }
  void on_end(const runner::TrainResult& r) override {
    out << "end " << r.steps << " after " << steps << " steps: " << r.reason << std::endl;
  }

  TellOptions options;
  std::ofstream out;
  int64_t steps = 0;
};

// Throws an exception at the given step.
struct ThrowingOptions {
  int64_t at = 1;
  bool is_error = false;
  template <class V> void describe(V& v) {
    v("at", at, kCount, "step at which it throws");
    v("is_error", is_error, "throws a taper::Error");
  }
};
struct Throwing : runner::Observer {
  explicit Throwing(const ThrowingOptions& o) : options(o) {}
  bool on_step(int64_t step, double, double) override {
    if (step != options.at) return true;
    const std::string what = "step " + std::to_string(step) + " is odd";
    if (options.is_error) throw ValueError(what);
    throw std::runtime_error(what);
  }
  ThrowingOptions options;
};

// Returns its input. If the file "nan" contains the number of this rank, the output in training is
// NaN.
struct Spoilt : Module {
  Tensor forward(const Tensor& x) override {
    std::string victim;
    std::ifstream("nan") >> victim;
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return is_training() && rank && victim == rank ? x * NAN : x;
  }
  std::string type_name() const override { return "Spoilt"; }
};
struct SpoiltOptions {
  template <class V> void describe(V&) {}
};

// Throws an exception in training, from a module within a module.
struct FaultyOptions {
  bool is_ours = false;
  template <class V> void describe(V& v) { v("is_ours", is_ours, "throws a taper::Error"); }
};
struct Faulty : Module {
  explicit Faulty(bool ours) : is_ours(ours) {}
  Tensor forward(const Tensor& x) override {
    if (is_training() && is_ours) throw ValueError("no such rows");
    if (is_training()) throw std::out_of_range("no such row");
    return x;
  }
  const bool is_ours;
};
struct Outer : Module {
  explicit Outer(bool ours) : inner(*this, "inner", ours) {}
  Tensor forward(const Tensor& x) override { return inner(x); }
  Child<Faulty> inner;
};

// Fails in the given way if the working directory has a file "fault".
void fail(const std::string& kind) {
  if (!std::ifstream("fault")) return;
  if (kind == "memory") (void)zeros({int64_t(1) << 50});
  if (kind == "foreign") throw std::out_of_range("no such row");
  if (kind == "unknown") throw 3;
  throw ValueError("no such rows");
}

// Set by the callback `fail` when the run's steps begin.
bool has_begun = false;

// Returns its input, but fails in call number `call` of the run, counted in training or in
// evaluation.
struct FailingOptions {
  std::string in = "training", kind = "error";
  int64_t call = 1, milliseconds = 0;
  template <class V> void describe(V& v) {
    v("in", in, "training or evaluation");
    v("kind", kind, "memory, foreign, unknown or error");
    v("call", call, kCountOrNone, "number of the call that fails; 0: none");
    v("milliseconds", milliseconds, kCountOrNone, "duration of each call");
  }
};
struct Failing : Module {
  explicit Failing(FailingOptions o) : options(std::move(o)) {}
  Tensor forward(const Tensor& x) override {
    if (is_training() != (options.in == "training")) return x;
    std::this_thread::sleep_for(std::chrono::milliseconds(options.milliseconds));
    if (has_begun && ++calls == options.call) fail(options.kind);
    return x;
  }
  const FailingOptions options;
  int64_t calls = 0;
};

// Stochastic gradient descent that fails in update number `call`, after some weights have changed.
struct FailingSgdOptions {
  double lr = 0.1;
  int64_t call = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("call", call, kCount, "number of the update that fails");
  }
  optim::OptimizerTraits traits() const { return {"FailingSGD", {}}; }
  void update(const optim::ParamStep& s) const {
    s.param.sub_(s.grad * lr);
    static int64_t calls = 0;
    static const void* const first = s.param.data_ptr();
    if (s.param.data_ptr() == first && ++calls == call) fail("error");
  }
};

struct ThrowOptions {
  std::string on = "step", kind = "error";
  int64_t step = 1, rank = -1;
  template <class V> void describe(V& v) {
    v("on", on, "step, eval or end");
    v("kind", kind, "memory, foreign, unknown or error");
    v("step", step, kCount, "step at which it fails");
    v("rank", rank, {-1, 100}, "rank that fails; -1: all");
  }
};
struct Throw : runner::Observer {
  explicit Throw(ThrowOptions o) : options(std::move(o)) {}
  void on_start(Module&) override { has_begun = true; }
  bool on_step(int64_t step, double, double) override {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const bool is_here = options.rank < 0 || (rank && std::atoi(rank) == options.rank);
    if (options.on == "step" && step == options.step && is_here) fail(options.kind);
    return true;
  }
  void on_eval(int64_t step, const std::string&, const runner::Metrics&) override {
    if (options.on == "eval" && step == options.step) fail(options.kind);
  }
  void on_end(const runner::TrainResult&) override {
    if (options.on == "end") fail(options.kind);
  }
  const ThrowOptions options;
};

int main(int argc, char** argv) {
  runner::register_optimizer<FailingSgdOptions>("failing_sgd");
  runner::register_layer<FailingOptions>("failing",
                                         [](const FailingOptions& o, const runner::LayerSite&) {
                                           return std::make_unique<Failing>(o);
                                         });
  runner::register_callback<ThrowOptions>(
      "fail", [](const auto& o, const auto&) { return std::make_unique<Throw>(o); });
  runner::register_optimizer<test::LookaheadOptions>("lookahead");
  runner::register_callback<TellOptions>(
      "tell", [](const auto& o, const auto& at) { return std::make_unique<Tell>(o, at); });
  runner::register_callback<ThrowingOptions>(
      "throwing", [](const auto& o, const auto&) { return std::make_unique<Throwing>(o); });
  runner::register_layer<SpoiltOptions>(
      "spoilt",
      [](const SpoiltOptions&, const runner::LayerSite&) { return std::make_unique<Spoilt>(); });
  runner::register_layer<FaultyOptions>("faulty",
                                        [](const FaultyOptions& o, const runner::LayerSite&) {
                                          return std::make_unique<Outer>(o.is_ours);
                                        });
  return runner::main(argc, argv);
}
