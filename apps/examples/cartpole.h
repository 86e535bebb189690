// A pole on a cart, to be kept upright by pushes to the left or right: gymnasium's CartPole-v1
// (https://gymnasium.farama.org/environments/classic_control/cart_pole), after Barto, Sutton and
// Anderson, 1983.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>

class CartPole {
 public:
  static constexpr int64_t kMostSteps = 500;
  // The cart's place and speed, the pole's angle and speed.
  using State = std::array<float, 4>;
  struct Step {
    State state;
    double reward;
    bool done;
  };

  explicit CartPole(uint64_t seed) : random_(seed) {}

  State reset() {
    // The standard's distributions differ between libraries; the bits of mt19937_64 do not.
    for (double& s : s_) s = double(random_() >> 11) * 0x1p-53 * 0.1 - 0.05;
    steps_ = 0;
    return state();
  }
  // action 0: to the left, 1: to the right.
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
