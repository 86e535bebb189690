// A function with a user-defined backward pass, P3(x) = (5 x^3 - 3 x) / 2, within a polynomial y =
// a + b P3(c + d x) that is fitted to a sine (PyTorch's tutorial "Defining new autograd
// functions"). First gradcheck compares the backward pass with finite differences.
#include <iostream>
#include <numbers>

#include <taper/taper.h>

using namespace taper;

struct LegendrePolynomial3 : Function<LegendrePolynomial3> {
  static Tensor forward(Context& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return 0.5 * (5 * x.pow(3) - 3 * x);
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& grad_output) {
    const Tensor x = ctx.saved_tensors()[0];
    return {grad_output[0] * 1.5 * (5 * x.pow(2) - 1)};
  }
};

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 2000;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  gradcheck([](const std::vector<Tensor>& x) { return LegendrePolynomial3::apply(x[0]); },
            {randn({5}, {.dtype = kFloat64, .requires_grad = true})});

  const Tensor x = linspace(-std::numbers::pi, std::numbers::pi, 2000, {.device = device});
  const Tensor y = sin(x);
  const Tensor a = full({}, 0.0, {.device = device, .requires_grad = true});
  const Tensor b = full({}, -1.0, {.device = device, .requires_grad = true});
  const Tensor c = full({}, 0.0, {.device = device, .requires_grad = true});
  const Tensor d = full({}, 0.3, {.device = device, .requires_grad = true});
  optim::SGD optimizer({a, b, c, d}, {.lr = 5e-6});

  for (int64_t step = 0; step < steps; ++step) {
    const Tensor y_pred = a + b * LegendrePolynomial3::apply(c + d * x);
    const Tensor loss = (y_pred - y).pow(2).sum();
    if (step % 100 == 0) {
      std::cout << "step " << step << ": loss " << loss.item<double>() << "\n";
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::cout << "y = " << a.item<double>() << " + " << b.item<double>() << " P3(" << c.item<double>()
            << " + " << d.item<double>() << " x)\n";
}
