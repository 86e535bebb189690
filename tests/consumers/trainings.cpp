// A user's test of a training that does not use GoogleTest: records a golden, checks it, and finds
// a training that has become worse.
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <taper/taper.h>
#include <taper/testing/training_golden.h>

using namespace taper;

static test::TrainingFunction training(double rate) {
  return [rate](uint64_t seed) {
    manual_seed(seed);
    Linear line(4, 1);
    const Tensor x = randn({32, 4}), y = x.sum(1, true) + randn({32, 1}) * 0.1;
    optim::SGD sgd(line.parameters(), {.lr = rate});
    test::Metrics out;
    for (int step = 1; step <= 10; ++step) {
      sgd.zero_grad();
      const Tensor loss = mse_loss(line(x), y);
      loss.backward();
      sgd.step();
      out.add(step, {{"loss", loss.item<double>()}});
    }
    return out;
  };
}

static bool fails(const char* what, const golden::Verdict& verdict, bool expected) {
  if (verdict.passed == expected) return false;
  std::cerr << what << ": " << verdict.text;
  return true;
}

int main() {
  const std::filesystem::path file = "trainings.json";
  std::filesystem::remove(file);
  ::setenv("TAPER_UPDATE_GOLDEN", "1", 1);
  if (fails("recording", test::check_bits(training(0.1), file), true)) return 1;
  ::unsetenv("TAPER_UPDATE_GOLDEN");
  if (fails("same bits", test::check_bits(training(0.1), file), true)) return 1;
  if (fails("as good", test::check_statistics(training(0.1), file), true)) return 1;
  return fails("a worse rate", test::check_statistics(training(0.02), file), false) ? 1 : 0;
}
