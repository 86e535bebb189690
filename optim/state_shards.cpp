#include "optim/state_shards.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "framework/factory/factories.h"

namespace taper::v0::optim {
namespace {

// Returns the parameter's id in a name, 12 for "state.12.exp_avg". Returns -1 for entries that
// belong to no parameter.
int64_t number_in(const std::string& name) {
  return name.starts_with("state.") ? std::atoll(name.c_str() + 6) : -1;
}

}  // namespace

StateShards::StateShards(Optimizer& optimizer, distributed::Communicator ranks)
    : optimizer_(optimizer), ranks_(std::move(ranks)), params_(optimizer.parameters()) {
  for (const NamedTensor& entry : optimizer.state_dict()) {
    require<ValueError>(number_in(entry.name) < 0, "StateShards: the optimizer already has state (",
                        entry.name,
                        "); shard it before its first step. Adagrad cannot be sharded, ",
                        "because it has state from the start");
  }
  std::vector<size_t> order(params_.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return params_[i].numel(); });
  std::vector<int64_t> load(size_t(ranks_.size()));
  owners_.resize(params_.size());
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owners_[i] = int(least - load.begin());
    *least += params_[i].numel();
  }
}

void StateShards::step() {
  step([this] { optimizer_.step(); });
}

void StateShards::step(const std::function<void()>& step) {
  // Hides the gradients of parameters that other ranks own, because an optimizer skips parameters
  // without a gradient.
  struct Hidden {
    std::vector<std::pair<Tensor, Tensor>> grads;
    ~Hidden() {
      for (const auto& [param, grad] : grads) param.set_grad(grad);
    }
  };
  {
    Hidden hidden;
    for (size_t i = 0; i < params_.size(); ++i) {
      if (owners_[i] == ranks_.rank()) continue;
      hidden.grads.emplace_back(params_[i], params_[i].grad());
      params_[i].set_grad({});
    }
    step();
  }
  ranks_.broadcast_strided(params_, owners_);
}

int64_t StateShards::num_owned() const {
  int64_t sum = 0;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (owners_[i] == ranks_.rank()) sum += params_[i].numel();
  }
  return sum;
}

std::vector<NamedTensor> StateShards::state_dict() const {
  std::vector<NamedTensor> own = optimizer_.state_dict();
  const auto number = [](const NamedTensor& t) { return number_in(t.name); };
  const auto settings = std::stable_partition(own.begin(), own.end(),
                                              [&](const NamedTensor& t) { return number(t) >= 0; });
  std::vector<NamedTensor> all;
  for (int r = 0; r < ranks_.size(); ++r) {
    const bool is_own = r == ranks_.rank();
    const std::vector<NamedTensor> part =
        ranks_.broadcast_named(is_own ? std::vector(own.begin(), settings) : decltype(own){}, r);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::stable_sort(all, {}, number);
  all.insert(all.end(), settings, own.end());
  return all;
}

void StateShards::load_state_dict(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> own;
  for (const NamedTensor& entry : state) {
    const int64_t i = number_in(entry.name);
    const bool is_foreign =
        i >= 0 && i < std::ssize(owners_) && owners_[size_t(i)] != ranks_.rank();
    if (!is_foreign) own.push_back(entry);
  }
  optimizer_.load_state_dict(own);
}

}  // namespace taper::v0::optim
