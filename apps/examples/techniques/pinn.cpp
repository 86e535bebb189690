// A network that satisfies a differential equation (a "physics-informed neural network",
// https://arxiv.org/abs/1711.10561): the heat equation u_t = a u_xx on 0 <= x <= 1, 0 <= t <= 1,
// with u = 0 at both ends and u(x, 0) = sin(pi x). The loss contains first and second derivatives
// of the network with respect to its inputs, and is itself differentiated with respect to the
// weights. The exact solution is exp(-a pi^2 t) sin(pi x).
#include <iostream>
#include <numbers>

#include <taper/taper.h>

using namespace taper;

constexpr double kDiffusivity = 0.1;

struct Solution : Module {
  // x and t are [N, 1].
  Tensor forward(const Tensor& xt) override { return out(tanh(second(tanh(first(xt))))); }

  Child<Linear> first{*this, "first", 2, 32}, second{*this, "second", 32, 32};
  Child<Linear> out{*this, "out", 32, 1};
};

// Returns dy/dx for each sample. y[i] depends on x[i] only, so that the sum's gradient has one
// derivative in each row. The result is on the tape and can be differentiated again.
Tensor derivative(const Tensor& y, const Tensor& x) {
  return grad({y.sum()}, {x}, {.create_graph = true})[0];
}

// Returns u_t - a u_xx at the points, which is zero for a solution.
Tensor residual(Solution& u, const Tensor& x, const Tensor& t) {
  const Tensor y = u(cat({x, t}, 1));
  const Tensor u_xx = derivative(derivative(y, x), x);
  return derivative(y, t) - kDiffusivity * u_xx;
}

Tensor exact(const Tensor& x, const Tensor& t) {
  const double rate = kDiffusivity * std::numbers::pi * std::numbers::pi;
  return exp(-rate * t) * sin(std::numbers::pi * x);
}

// Returns the largest difference from the exact solution on a grid.
double largest_error(Solution& u, Device device) {
  const NoGradGuard no_grad;
  const std::vector<Tensor> grid =
      meshgrid({linspace(0, 1, 21, {.device = device}), linspace(0, 1, 21, {.device = device})});
  const Tensor x = grid[0].reshape({-1, 1}), t = grid[1].reshape({-1, 1});
  return abs(u(cat({x, t}, 1)) - exact(x, t)).max().item<float>();
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 3000;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  Solution u;
  u.to(device);
  optim::Adam optimizer(u.parameters(), {.lr = 3e-3});
  const TensorOptions points{.device = device, .requires_grad = true};

  for (int64_t step = 0; step < steps; ++step) {
    // New random points in each step: inside, at t = 0, and at both ends.
    const Tensor inside = residual(u, rand({256, 1}, points), rand({256, 1}, points));
    const Tensor x = rand({128, 1}, {.device = device}), zero = zeros_like(x);
    const Tensor start = u(cat({x, zero}, 1)) - exact(x, zero);
    const Tensor t = rand({128, 1}, {.device = device}),
                 end = (rand({128, 1}, {.device = device}) > 0.5).to(kFloat32);
    const Tensor loss = inside.square().mean() + 10 * start.square().mean() +
                        10 * u(cat({end, t}, 1)).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
  }
  std::cout << "largest error " << largest_error(u, device) << "\n";
}
