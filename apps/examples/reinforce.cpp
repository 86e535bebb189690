// REINFORCE (Williams, 1992) learns to balance a pole, as pytorch/examples' reinforcement_learning:
// actions are drawn from a policy, whose log-probabilities are weighted by the returns.
#include <iostream>

#include <taper/distributions/distributions.h>
#include <taper/taper.h>

#include "apps/examples/cartpole.h"

using namespace taper;

constexpr double kGamma = 0.99;  // discount of later rewards

struct Policy : Module {
  Child<Linear> affine1{*this, "affine1", 4, 128};
  Child<Dropout> dropout{*this, "dropout", 0.6};
  Child<Linear> affine2{*this, "affine2", 128, 2};
  std::vector<Tensor> saved_log_probs;
  std::vector<double> rewards;

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

void finish_episode(Policy& policy, optim::Optimizer& optimizer, Device device) {
  std::vector<double> returns(policy.rewards.size());
  double R = 0;
  for (size_t t = returns.size(); t-- > 0;) returns[t] = R = policy.rewards[t] + kGamma * R;
  Tensor weights = tensor(returns, {.device = device});
  weights = (weights - weights.mean()) / (weights.std() + 1e-7);
  const Tensor policy_loss = -(cat(policy.saved_log_probs) * weights).sum();
  optimizer.zero_grad();
  policy_loss.backward();
  optimizer.step();
  policy.rewards.clear();
  policy.saved_log_probs.clear();
}

int main(int argc, char** argv) {
  const int64_t episodes = argc > 1 ? std::stoll(argv[1]) : 300;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  CartPole env(1);
  Policy policy;
  policy.to(device);
  optim::Adam optimizer(policy.parameters(), {.lr = 1e-2});

  double running_reward = 10;
  for (int64_t episode = 1; episode <= episodes && running_reward < 475; ++episode) {
    CartPole::Step now{env.reset(), 0, false};
    double ep_reward = 0;
    while (!now.done) {
      now = env.step(select_action(policy, now.state, device));
      policy.rewards.push_back(now.reward);
      ep_reward += now.reward;
    }
    running_reward = 0.05 * ep_reward + 0.95 * running_reward;
    finish_episode(policy, optimizer, device);
    if (episode % 10 == 0) {
      std::cout << "episode " << episode << ": reward " << running_reward << ", last " << ep_reward
                << "\n";
    }
  }
}
