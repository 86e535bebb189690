// REINFORCE (Williams, 1992) learns to balance a pole, like pytorch/examples'
// reinforcement_learning: actions are drawn from a policy, whose log probabilities are weighted by
// the returns.
#include <taper/modules/distributions/distributions.h>
#include <taper/taper.h>

#include "apps/examples/cartpole.h"

using namespace taper;

constexpr double kGamma = 0.99;  // discount of later rewards

struct Policy : Module {
  Child<Linear> affine1{*this, "affine1", 4, 128};
  Child<Dropout> dropout{*this, "dropout", 0.6};
  Child<Linear> affine2{*this, "affine2", 128, 2};
  std::vector<Tensor> saved_log_probs;

  Tensor forward(const Tensor& state) override {
    const Tensor x = relu(dropout(affine1(state)));
    return softmax(affine2(x), 1);
  }
};

int64_t select_action(Policy& policy, const CartPole::State& state, Device device) {
  const Tensor x = tensor_of(state.data(), {1, 4}, {.device = device});
  const distributions::Categorical m(policy(x));
  const Tensor action = m.sample();
  policy.saved_log_probs.push_back(m.log_prob(action));
  return action.item<int64_t>();
}

void finish_episode(Policy& policy, optim::Optimizer& optimizer, const Tensor& returns) {
  const Tensor policy_loss = -(cat(policy.saved_log_probs) * returns).sum();
  optimizer.zero_grad();
  policy_loss.backward();
  optimizer.step();
  policy.saved_log_probs.clear();
}

int main(int argc, char** argv) {
  const int64_t episodes = argc > 1 ? std::stoll(argv[1]) : 300;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  Policy policy;
  policy.to(device);
  optim::Adam optimizer(policy.parameters(), {.lr = 1e-2});
  play(
      episodes, [&](const CartPole::State& state) { return select_action(policy, state, device); },
      [&](const std::vector<double>& rewards) {
        finish_episode(policy, optimizer, normalized_returns(rewards, kGamma, device));
      });
}
