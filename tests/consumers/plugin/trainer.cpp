#include <taper/taper.h>

using namespace taper;

// Trains a network large enough to use the threads. Returns the bits of the last loss.
extern "C" unsigned long train() {
  manual_seed(1);
  set_num_threads(2);
  Sequential net(Linear(256, 512), GELU(), Linear(512, 10));
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
  set_num_threads(1);
  return (unsigned long)(last * 1e6);
}
