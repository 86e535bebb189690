// The program `taper` with an optimizer and a callback of its own, which configs name:
//
//   optimizer: {type: lookahead, lr: 0.1, k: 5}
//   callbacks: [tell: {until: 20}]
#include <fstream>

#include "apps/runner/runner.h"
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

int main(int argc, char** argv) {
  runner::register_optimizer<test::LookaheadOptions>("lookahead");
  runner::register_callback<TellOptions>(
      "tell", [](const auto& o, const auto& at) { return std::make_unique<Tell>(o, at); });
  return runner::main(argc, argv);
}
