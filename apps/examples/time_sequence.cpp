// Two LSTM cells learn sine waves and continue them, like pytorch/examples'
// time_sequence_prediction. The optimizer is LBFGS, which evaluates the loss several times per
// step. All numbers are float64.
#include <iostream>

#include <taper/taper.h>

using namespace taper;

struct Sequence : ModuleOf<Sequence> {
  Child<LSTMCell> lstm1{*this, "lstm1", 1, 51};
  Child<LSTMCell> lstm2{*this, "lstm2", 51, 51};
  Child<Linear> linear{*this, "linear", 51, 1};

  // Returns the predicted next value after each of the T values of input [N, T], followed by
  // `future` further predictions.
  Tensor forward(const Tensor& input, int64_t future = 0) {
    std::vector<Tensor> outputs;
    LstmState h1, h2;  // zeros
    const auto next = [&](const Tensor& x) {
      h1 = lstm1(x, h1);
      h2 = lstm2(h1.h, h2);
      outputs.push_back(linear(h2.h));
    };
    for (const Tensor& input_t : input.split(1, 1)) next(input_t);
    for (int64_t i = 0; i < future; ++i) next(outputs.back());
    return cat(outputs, 1);
  }
};

// Runs one step and passes every loss that it computes to `each`.
template <class Each>
void train_step(Sequence& seq, optim::LBFGS& optimizer, const Tensor& input, const Tensor& target,
                const Each& each) {
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(seq(input), target);
    each(loss.item<double>());
    loss.backward();
    return loss;
  });
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 5;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(0);
  // N waves with random phases. Each has L time steps; PyTorch's program uses L = 1000.
  constexpr int64_t T = 20, L = 200, N = 100;
  const Tensor begin = randint(-4 * T, 4 * T, {N, 1});
  const Tensor data = sin((arange(L) + begin).to(kFloat64) / double(T)).to(device);
  const Tensor input = data.slice(0, 3).slice(1, 0, -1), target = data.slice(0, 3).slice(1, 1);
  const Tensor test_input = data.slice(0, 0, 3).slice(1, 0, -1);
  const Tensor test_target = data.slice(0, 0, 3).slice(1, 1);

  Sequence seq;
  seq.to(device, kFloat64);
  optim::LBFGS optimizer(seq.parameters(), {.lr = 0.8});
  for (int64_t step = 0; step < steps; ++step) {
    train_step(seq, optimizer, input, target,
               [&](double loss) { std::cout << "step " << step << ": loss " << loss << "\n"; });
    const NoGradGuard no_grad;
    const Tensor pred = seq(test_input, L);
    std::cout << "test: loss " << mse_loss(pred.slice(1, 0, L - 1), test_target).item<double>()
              << "\n";
    save_npy(concat_to_string("predict", step, ".npy"), pred.cpu());
  }
}
