#include "optim/state_shards.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "framework/factory/low_precision_cache.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/optim/foreach.h"

namespace taper::v0::optim {
namespace {

constexpr bool kAsync = true;  // concurrently with the update of the next piece
constexpr int64_t kMostPieces = 8;

// Returns the parameter's id in a name, 12 for "state.12.exp_avg". Returns -1 for entries that
// belong to no parameter.
int64_t number_in(const std::string& name) {
  return name.starts_with("state.") ? std::atoll(name.c_str() + 6) : -1;
}

}  // namespace

// A piece that is being sent. All vectors have an entry for each of its parameters.
struct StateShards::Broadcast {
  std::vector<Tensor> params;
  std::vector<Tensor> dense;  // what is sent: the parameter, or a row-major copy of it
  std::vector<Tensor> low;    // its copy in a half type, or undefined
  std::vector<int> owners;
  distributed::Work work;
};

StateShards::StateShards(Optimizer& optimizer, distributed::Communicator ranks,
                         StateShardsOptions options)
    : optimizer_(optimizer), ranks_(std::move(ranks)), params_(optimizer.parameters()) {
  for (const NamedTensor& entry : optimizer.state_dict()) {
    require<ValueError>(number_in(entry.name) < 0, "StateShards: the optimizer already has state (",
                        entry.name,
                        "); shard it before its first step. Adagrad cannot be sharded, ",
                        "because it has state from the start");
  }
  require<ValueError>(options.piece_bytes > 0, "StateShards: piece_bytes must be positive, got ",
                      options.piece_bytes);
  std::vector<size_t> order = every_parameter();
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return params_[i].numel(); });
  std::vector<int64_t> load(size_t(ranks_.size()));
  owners_.resize(params_.size());
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owners_[i] = int(least - load.begin());
    *least += params_[i].numel();
  }
  pieces_ = make_pieces(options.piece_bytes);
}

StateShards::Piece StateShards::every_parameter() const {
  Piece all(params_.size());
  std::iota(all.begin(), all.end(), size_t(0));
  return all;
}

// Distributes each owner's parameters, the smallest first: the broadcast of the first piece begins
// when its own update is over, so that should be a short one.
std::vector<StateShards::Piece> StateShards::make_pieces(int64_t piece_bytes) const {
  std::vector<int64_t> bytes(size_t(ranks_.size())), sum(bytes);
  for (size_t i = 0; i < params_.size(); ++i) {
    bytes[size_t(owners_[i])] += int64_t(params_[i].nbytes());
  }
  const int64_t most = *std::max_element(bytes.begin(), bytes.end());
  const bool is_whole = ranks_.size() == 1 || !optimizer_.skips_on_device();
  const int64_t count = is_whole ? 1 : std::clamp<int64_t>(most / piece_bytes, 1, kMostPieces);
  Piece order = every_parameter();
  std::ranges::stable_sort(order, std::less<>(), [&](size_t i) { return params_[i].numel(); });
  std::vector<Piece> pieces{size_t(count)};
  for (const size_t i : order) {
    const size_t owner = size_t(owners_[i]);
    const int64_t size = int64_t(params_[i].nbytes()), middle = sum[owner] + size / 2;
    sum[owner] += size;
    const int64_t number = bytes[owner] > 0 ? middle * count / bytes[owner] : 0;
    pieces[size_t(std::min(number, count - 1))].push_back(i);
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.empty(); });
  return pieces;
}

void StateShards::step() {
  step_in_pieces([this] { optimizer_.step(); });
}

void StateShards::step_in_pieces(const std::function<void()>& step) { step_by(pieces_, step); }

void StateShards::step(const std::function<void()>& step) { step_by({every_parameter()}, step); }

void StateShards::step_by(const std::vector<Piece>& pieces, const std::function<void()>& step) {
  std::vector<Broadcast> all;
  for (const Piece& piece : pieces) {
    update(piece, step);
    all.push_back(broadcast(piece));
  }
  for (Broadcast& one : all) {
    one.work.wait();
    store(one);
  }
}

// Calls step() while only this rank's parameters in the piece have gradients, because an optimizer
// skips the others.
void StateShards::update(const Piece& piece, const std::function<void()>& step) const {
  struct Hidden {
    std::vector<std::pair<Tensor, Tensor>> grads;
    ~Hidden() {
      for (const auto& [param, grad] : grads) param.set_grad(grad);
    }
  } hidden;
  std::vector<bool> is_updated(params_.size());
  for (const size_t i : piece) is_updated[i] = owners_[i] == ranks_.rank();
  for (size_t i = 0; i < params_.size(); ++i) {
    if (is_updated[i]) continue;
    hidden.grads.emplace_back(params_[i], params_[i].grad());
    params_[i].set_grad({});
  }
  step();
}

StateShards::Broadcast StateShards::broadcast(const Piece& piece) const {
  Broadcast sent;
  for (const size_t i : piece) {
    const Tensor& p = params_[i];
    sent.params.push_back(p);
    sent.dense.push_back(kernels::dense(p));
    sent.low.push_back(low_precision_copy_to_update(p));
    sent.owners.push_back(owners_[i]);
  }
  sent.work = ranks_.broadcast(sent.dense, sent.owners, kAsync);
  return sent;
}

// Stores what other ranks have sent. Copies in half types were up to date before it arrived, and
// the optimizer has written those of this rank's parameters.
void StateShards::store(const Broadcast& done) const {
  std::vector<Tensor> low, from;
  for (size_t i = 0; i < done.params.size(); ++i) {
    if (done.owners[i] == ranks_.rank()) continue;
    const Tensor& p = done.params[i];
    if (done.dense[i].data_ptr() != p.data_ptr()) {
      kernels::copy_into(p, done.dense[i]);
      p.storage()->version.fetch_add(1);
    }
    if (!done.low[i].defined()) continue;
    low.push_back(done.low[i]);
    from.push_back(p);
  }
  kernels::copy_list(low, from);
  for (size_t i = 0; i < done.params.size(); ++i) {
    if (done.low[i].defined()) low_precision_copy_updated(done.params[i]);
  }
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
