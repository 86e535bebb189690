// An actor and a critic in one network learn to balance a pole, like pytorch/examples'
// reinforcement_learning: the critic's value of a state is the baseline of the actor's returns.
#include <tuple>

#include <taper/modules/distributions/distributions.h>
#include <taper/taper.h>

#include "apps/examples/cartpole.h"

using namespace taper;

constexpr double kGamma = 0.99;  // discount of later rewards

struct Judged {
  Tensor action_prob, state_value;
  auto tensors() { return std::tie(action_prob, state_value); }
};

struct Policy : Module {
  Child<Linear> affine1{*this, "affine1", 4, 128};
  Child<Linear> action_head{*this, "action_head", 128, 2};
  Child<Linear> value_head{*this, "value_head", 128, 1};
  std::vector<Tensor> log_probs, values;  // of the episode's actions and states

  Judged operator()(const Tensor& state) {
    const auto body = [this](const Tensor& s) -> Judged {
      const Tensor x = relu(affine1(s));
      return {softmax(action_head(x), -1), value_head(x)};
    };
    return call_with_hooks(body, state);
  }
};

int64_t select_action(Policy& model, const CartPole::State& state, Device device) {
  const auto [probs, value] = model(tensor_of(state.data(), {4}, {.device = device}));
  const distributions::Categorical m(probs);
  const Tensor action = m.sample();
  model.log_probs.push_back(m.log_prob(action));
  model.values.push_back(value);
  return action.item<int64_t>();
}

void finish_episode(Policy& model, optim::Optimizer& optimizer, const Tensor& returns) {
  const Tensor values = cat(model.values);
  const Tensor advantage = returns - values.detach();
  optimizer.zero_grad();
  const Tensor policy_loss = -(stack(model.log_probs) * advantage).sum();
  const Tensor value_loss = smooth_l1_loss(values, returns, Reduction::kSum);
  (policy_loss + value_loss).backward();
  optimizer.step();
  model.log_probs.clear();
  model.values.clear();
}

int main(int argc, char** argv) {
  const int64_t episodes = argc > 1 ? std::stoll(argv[1]) : 300;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  Policy model;
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 3e-2});
  play(
      episodes, [&](const CartPole::State& state) { return select_action(model, state, device); },
      [&](const std::vector<double>& rewards) {
        finish_episode(model, optimizer, normalized_returns(rewards, kGamma, device));
      });
}
