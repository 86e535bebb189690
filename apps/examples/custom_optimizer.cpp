// A user-defined optimizer: momentum steps along the sign of the gradient (SignSGD,
// https://arxiv.org/abs/1802.04434), compared with SGD on the same small network.
#include <iostream>

#include <taper/taper.h>

using namespace taper;

struct SignSGDOptions {
  double lr = 1e-3, momentum = 0.9;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "part of the mean that is kept");
  }
  optim::OptimizerTraits traits() const { return {"SignSGD", {"momentum_buffer"}}; }
  void update(const optim::ParamStep& s) const {
    s.states[0].mul_(momentum).add_(s.grad, 1 - momentum);
    s.param.sub_(sign(s.states[0]) * s.lr);
  }
};
using SignSGD = optim::OptimizerOf<SignSGDOptions>;

template <class Optimizer, class Options>
void train(const char* name, const Options& options, int64_t steps, Device device) {
  manual_seed(1);
  Sequential model(Linear(2, 32), Tanh(), Linear(32, 1));
  model.to(device);
  Optimizer optimizer(model.parameters(), options);
  optim::LRScheduler scheduler(optimizer, optim::schedule::cosine_annealing(steps));
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor x = rand({256, 2}, {.device = device});
    const Tensor y = sin(6 * x.narrow(1, 0, 1)) * x.narrow(1, 1, 1);
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    scheduler.step();
    if (step % 50 == 0 || step + 1 == steps) {
      std::cout << name << " step " << step << ": loss " << loss.item<double>() << "\n";
    }
  }
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 500;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  train<optim::SGD>("SGD", optim::SGDOptions{.lr = 0.1, .momentum = 0.9}, steps, device);
  train<SignSGD>("SignSGD", SignSGDOptions{.lr = 0.01}, steps, device);
}
