// A user's program: trains for a few steps and returns the result as its exit code.
#include <taper/taper.h>

using namespace taper;

int main() {
  manual_seed(1);
  Sequential net(Linear(4, 8), Tanh(), Linear(8, 2));
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Tensor x = randn({16, 4}), y = randint(0, 2, {16});
  const double before = cross_entropy(net(x), y).item<double>();
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    cross_entropy(net(x), y).backward();
    optimizer.step();
  }
  return cross_entropy(net(x), y).item<double>() < before ? 0 : 1;
}
