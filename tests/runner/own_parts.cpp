// The program `taper` with an optimizer, a callback and a layer of its own, which configs name:
//
//   optimizer: {type: lookahead, lr: 0.1, k: 5}
//   callbacks: [tell: {until: 20}]
//   model: {type: sequential, layers: [flatten, spoilt, linear: 10]}
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "apps/runner/runner.h"
#include "modules/members.h"
#include "tests/optim/own_optimizers.h"

using namespace taper;

struct TellOptions {
  int64_t until = 0;

  template <class V> void describe(V& v) {
    v("until", until, kCountOrNone, "the step after which the run ends; 0: none");
  }
};

// Writes what it sees beside the run: into RUN.told.
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

// Throws at a step, as the config says.
struct ThrowingOptions {
  int64_t at = 1;
  bool is_error = false;
  template <class V> void describe(V& v) {
    v("at", at, kCount, "the step");
    v("is_error", is_error, "by an Error");
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

// Passes on what it gets; nan in training on the rank whose number is in the file "nan", while
// there is one.
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

// Fails in training, as the config says, below a module that passes on what it gets.
struct FaultyOptions {
  bool is_ours = false;
  template <class V> void describe(V& v) { v("is_ours", is_ours, "by an Error"); }
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

int main(int argc, char** argv) {
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
