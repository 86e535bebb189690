// A pole on a cart that pushes to the left or right must keep upright: gymnasium's CartPole-v1
// (https://gymnasium.farama.org/environments/classic_control/cart_pole), after Barto, Sutton and
// Anderson, 1983.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>

#include <taper/taper.h>

class CartPole {
 public:
  static constexpr int64_t kMostSteps = 500;
  // The cart's position and velocity, the pole's angle and angular velocity.
  using State = std::array<float, 4>;
  struct Step {
    State state;
    double reward;
    bool done;
  };

  explicit CartPole(uint64_t seed) : random_(seed) {}

  State reset() {
    // The standard library's distributions differ between implementations; the bits of mt19937_64
    // do not.
    for (double& s : s_) s = double(random_() >> 11) * 0x1p-53 * 0.1 - 0.05;
    steps_ = 0;
    return state();
  }
  // Applies an action: 0 pushes to the left, 1 to the right.
  Step step(int64_t action) {
    constexpr double gravity = 9.8, pole = 0.1, mass = 1 + pole, half_length = 0.5, tau = 0.02;
    auto& [x, v, angle, w] = s_;
    const double force = action == 1 ? 10 : -10;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double push = (force + pole * half_length * w * w * sine) / mass;
    const double turn = (gravity * sine - cosine * push) /
                        (half_length * (4.0 / 3 - pole * cosine * cosine / mass));
    x += tau * v;
    v += tau * (push - pole * half_length * turn * cosine / mass);
    angle += tau * w;
    w += tau * turn;
    const bool fell = std::abs(x) > 2.4 || std::abs(angle) > 12 * 3.14159265358979 / 180;
    return {state(), 1, fell || ++steps_ == kMostSteps};
  }

 private:
  State state() const { return {float(s_[0]), float(s_[1]), float(s_[2]), float(s_[3])}; }

  std::mt19937_64 random_;
  std::array<double, 4> s_{};
  int64_t steps_ = 0;
};

// Returns the discounted return of each step of an episode: the sum over k of gamma^k times the
// reward k steps later. The returns are normalized to mean 0 and standard deviation 1.
inline taper::Tensor normalized_returns(const std::vector<double>& rewards, double gamma,
                                        taper::Device device) {
  std::vector<double> discounted(rewards.size());
  double R = 0;
  for (size_t t = discounted.size(); t-- > 0;) discounted[t] = R = rewards[t] + gamma * R;
  const taper::Tensor returns = taper::tensor(discounted, {.device = device});
  return (returns - returns.mean()) / (returns.std() + 1e-7);
}

// Plays with select_action(state) and calls finish_episode(rewards) after each episode, until the
// pole stays upright.
inline void play(int64_t episodes, const auto& select_action, const auto& finish_episode) {
  CartPole env(1);
  double running_reward = 10;
  for (int64_t episode = 1; episode <= episodes && running_reward < 475; ++episode) {
    CartPole::Step now{env.reset(), 0, false};
    std::vector<double> rewards;
    while (!now.done) {
      now = env.step(select_action(now.state));
      rewards.push_back(now.reward);
    }
    const double ep_reward = double(rewards.size());  // 1 for each step
    running_reward = 0.05 * ep_reward + 0.95 * running_reward;
    finish_episode(rewards);
    if (episode % 10 == 0) {
      std::cout << "episode " << episode << ": reward " << running_reward << ", last " << ep_reward
                << "\n";
    }
  }
}
