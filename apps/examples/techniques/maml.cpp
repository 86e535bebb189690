// Meta-learning (MAML, https://arxiv.org/abs/1703.03400): finds initial weights from which a few
// gradient steps fit any sine wave of which ten points are known. The inner steps stay on the tape,
// so that the loss after them is differentiated through the steps with respect to the initial
// weights.
#include <iostream>
#include <numbers>

#include <taper/taper.h>

using namespace taper;

constexpr double kInnerRate = 0.01;
constexpr int kInnerSteps = 3;

struct Regressor : Module {
  Tensor forward(const Tensor& x) override { return out(relu(second(relu(first(x))))); }

  Child<Linear> first{*this, "first", 1, 40}, second{*this, "second", 40, 40};
  Child<Linear> out{*this, "out", 40, 1};
};

// One sine wave y = amplitude * sin(x + phase).
struct Task {
  Tensor amplitude, phase;

  explicit Task(Device device)
      : amplitude(rand({1}, {.device = device}) * 4.9 + 0.1),
        phase(rand({1}, {.device = device}) * std::numbers::pi) {}
  Tensor at(const Tensor& x) const { return amplitude * sin(x + phase); }
};

Tensor draw_points(Device device) { return rand({10, 1}, {.device = device}) * 10 - 5; }

// Returns the weights after some steps of gradient descent on (x, y). With create_graph, they are
// differentiable functions of the module's own weights.
std::vector<NamedTensor> adapt(Regressor& net, const Tensor& x, const Tensor& y,
                               bool create_graph) {
  std::vector<NamedTensor> weights = net.named_parameters();
  for (int step = 0; step < kInnerSteps; ++step) {
    std::vector<Tensor> inputs;
    for (const NamedTensor& w : weights) inputs.push_back(w.tensor);
    const Tensor loss = mse_loss(functional_call(net, weights, x), y);
    const std::vector<Tensor> gradients = grad({loss}, inputs, {.create_graph = create_graph});
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i].tensor = inputs[i] - kInnerRate * gradients[i];
    }
  }
  return weights;
}

// Returns the mean loss on further points of new tasks, after the steps on ten points of each.
Tensor loss_after_adapting(Regressor& net, int tasks, Device device, bool create_graph) {
  Tensor sum = zeros({}, {.device = device});
  for (int i = 0; i < tasks; ++i) {
    const Task task(device);
    const Tensor known = draw_points(device), asked = draw_points(device);
    const std::vector<NamedTensor> weights = adapt(net, known, task.at(known), create_graph);
    sum = sum + mse_loss(functional_call(net, weights, asked), task.at(asked));
  }
  return sum / tasks;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 2000;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  Regressor net;
  net.to(device);
  optim::Adam optimizer(net.parameters(), {.lr = 1e-3});

  for (int64_t step = 0; step <= steps; ++step) {
    if (step % 100 == 0) {
      const Tensor loss = loss_after_adapting(net, 100, device, false);
      std::cout << "step " << step << ": loss of new tasks " << loss.item<float>() << "\n";
    }
    optimizer.zero_grad();
    loss_after_adapting(net, 8, device, true).backward();
    optimizer.step();
  }
}
