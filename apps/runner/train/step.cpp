#include "apps/runner/train/step.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "apps/runner/base/errors.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/train/bad_tensor.h"
#include "apps/runner/train/parts.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/base/log.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/optim/foreach.h"
#include "framework/memory/cuda_memory.h"
#include "framework/profiler/profiler.h"
#include "optim/clip.h"
#include "optim/shared.h"

namespace taper::v0::runner {
namespace {

// Of a step that is a graph: their inputs lie on the device all at once.
constexpr int64_t kMostBatches = 64;

// How many of a batch are learned from.
Tensor tokens_of(const Batch& b) { return sum(ne(b.targets, data::kIgnoredTarget)).to(kFloat32); }

}  // namespace

Step::Step(const RunConfig& config, const data::Splits& data, Batches& loader, Learner& learner,
           const Communicator& ranks, bool is_watched)
    : config_(config),
      device_(ranks.device()),
      data_(data),
      is_watched_(is_watched),
      loader_(loader),
      learner_(learner),
      ranks_(ranks),
      all_parts_(config.train.shards.value_or(ranks.size())),
      parts_(all_parts_ / ranks.size()),
      first_part_(parts_ * ranks.rank()),
      loss_(losses().make(config.loss, {data.task})),
      row_(zeros({2}, {.device = device_})),
      one_(ones({}, {.device = device_})),
      bad_(zeros({}, {.device = device_})),
      buffers_(*learner.model, config.train.on_nan == OnNan::kSkip) {
  require<ConfigError>(all_parts_ % ranks.size() == 0, "train.shards: ", all_parts_,
                       " parts are no multiple of the ", ranks.size(), " ranks that were started");
  reset();
  const Graph wanted = config_.train.graph;
  if (!graph_ && (wanted == Graph::kOn || (wanted == Graph::kAuto && device_.is_cuda()))) {
    inform(cat("steps run without a CUDA graph: ", why_eager()));
  }
}

void Step::begin() {
  if (all_parts_ == 1) return;
  const DistributedConfig& c = config_.distributed;
  DataParallelOptions options{.bucket_bytes = c.bucket_mb << 20};
  if (c.reduce == Reduce::kBf16) options.reduce_dtype = kBFloat16;
  if (config_.train.shards) {
    options.order = ReduceOrder::tree;
    options.shards = int(all_parts_);
  }
  parallel_.emplace(*learner_.model, ranks_, options);
}

void Step::share_buffers() {
  if (!parallel_ || config_.train.shards) return;
  parallel_->broadcast_buffers();
  buffers_.accept();
}

// --- batches ---

int64_t Step::batches_from(int64_t batch) const {
  return std::min(config_.train.accumulate, loader_.steps_per_epoch() - batch);
}

int64_t Step::samples_from(int64_t batch) const {
  const int64_t size = config_.train.batch_size;
  return std::min(batches_from(batch) * size, loader_.samples_per_epoch() - batch * size);
}

bool Step::go_to(Position at) {
  if (at_ == at) return false;
  loader_.start(at.epoch, at.batch);
  at_ = at;
  return true;
}

Batch Step::next_batch() {
  const RecordFunction range("enumerate(DataLoader)#Loader.next");
  const auto before = std::chrono::steady_clock::now();
  Batch b = loader_.next();
  data_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  return b;
}

// --- as it stands ---

void Step::run() {
  buffers_.begin();
  const int64_t usual = batches_from(at_->batch) * config_.train.batch_size;
  // A graph has numbers of samples in it, of which an epoch's last batch has others.
  const bool is_uneven = parallel_ && samples_from(at_->batch) != usual;
  if (graph_ && !is_uneven) {
    replay();
  } else {
    compute([this] { return next_batch(); });
  }
  at_->batch += batches_from(at_->batch);
}

// All of a step that the device does.
void Step::compute(const NextBatch& next) {
  Learner& l = learner_;
  is_updating_ = false;
  buffers_.take();
  l.optimizer->zero_grad();
  const Tensor loss = forward_and_backward(next);
  if (l.scaler) l.scaler->unscale_(*l.optimizer);
  const Tensor norm = clip_gradients();
  row_.select(0, 0).copy_(loss);
  row_.select(0, 1).copy_(norm);
  const Tensor found = found_inf();
  const auto update = [&] {
    try {
      l.optimizer->step_unless(found);
    } catch (const std::exception& error) {
      optimizers().refuse_call(config_.optimizer, error);
      throw;
    }
  };
  is_updating_ = true;
  if (l.shards) l.shards->step(update);
  if (!l.shards) update();
  if (l.scaler) l.scaler->update();
  // A skipped batch leaves no nan in running means either.
  if (config_.train.on_nan == OnNan::kSkip) buffers_.restore_where(found);
  if (l.ema) l.ema->update();
  is_updating_ = false;
}

bool Step::undo() {
  at_.reset();
  return !is_updating_ && buffers_.restore();
}

void Step::release_memory() {
  graph_.reset();
  learner_.model->zero_grad();
  if (device_.is_cuda()) cuda::empty_cache();
}

// Where a part of this rank begins in its part of the step's batch `index`.
int64_t Step::begin_of(int64_t part, int64_t index) const {
  const int64_t size = config_.train.batch_size, first = (at_->batch + index) * size,
                samples = std::min(size, loader_.samples_per_epoch() - first);
  return begin_of_part(samples, first_part_ + part, all_parts_) -
         begin_of_part(samples, first_part_, all_parts_);
}

Batch Step::part_of(const Batch& batch, int64_t index, int64_t part) const {
  if (parts_ == 1) return batch;
  const int64_t from = begin_of(part, index), n = begin_of(part + 1, index) - from;
  // Where memory begins may have a say in how a product is computed.
  const auto rows = [&](const Tensor& x) { return x.narrow(0, from, n).clone(); };
  return {rows(batch.inputs), rows(batch.targets)};
}

// A part's share of the step's samples.
double Step::share_of(int64_t part) const {
  int64_t samples = 0;
  for (int64_t i = 0; i < batches_from(at_->batch); ++i) {
    samples += begin_of(part + 1, i) - begin_of(part, i);
  }
  return double(samples) / double(samples_from(at_->batch));
}

// The loss of a part of the step's batches, as a share of the step's mean; its gradients are added
// up.
Tensor Step::run_part(int64_t part, const std::vector<Batch>& loaded, const NextBatch& next,
                      const Tensor& tokens) {
  const int64_t batches = batches_from(at_->batch), samples = samples_from(at_->batch);
  // Gradients are averaged over ranks, but summed over shards.
  const double scale = config_.train.shards ? 1 : double(ranks_.size());
  Tensor total;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch b = loaded.empty() ? next() : part_of(loaded[size_t(i)], i, part);
    const int64_t n = b.inputs.size(0);
    // Gradients travel with the last backward pass of this rank.
    std::optional<DataParallel::NoSync> alone;
    const bool is_last = part + 1 == parts_ && i + 1 == batches;
    if (parallel_ && !is_last) alone.emplace(*parallel_);
    if (n == 0) {
      parallel_->skip_leaf();
      continue;
    }
    Tensor loss;
    {
      const RecordFunction range("forward");
      const Autocast half = autocast_of(config_.train.precision, device_.type());
      loss =
          run_loss(loss_, config_.loss, run_model(*learner_.model, config_.model, data_, b.inputs),
                   b.targets, Reduction::mean);
    }
    // The mean over all samples of the step, as one big batch would give it.
    if (tokens.defined()) {
      loss = loss * (tokens_of(b) / tokens * scale);
    } else if (double(n) * scale != double(samples)) {
      loss = loss * (double(n) * scale / double(samples));
    }
    if (!is_checked_) check_all_registered(*learner_.model, loss);
    is_checked_ = true;
    const RecordFunction range("backward");
    (learner_.scaler ? learner_.scaler->scale(loss) : loss).backward();
    total = total.defined() ? total + loss.detach() : loss.detach();
  }
  return total.defined() ? total : zeros({}, {.device = device_});
}

// The losses of this rank's parts of the step's batches; gradients of all are in the parameters.
Tensor Step::run_parts(const NextBatch& next) {
  const int64_t batches = batches_from(at_->batch);
  // Lines of a text count by their tokens, which must be known of all.
  const bool by_tokens = data_.lines && (batches > 1 || all_parts_ > 1);
  std::vector<Batch> loaded;
  Tensor tokens;
  while ((by_tokens || parts_ > 1) && std::ssize(loaded) < batches) {
    loaded.push_back(next());
    if (!by_tokens) continue;
    const Tensor n = tokens_of(loaded.back());
    tokens = tokens.defined() ? tokens + n : n;
  }
  if (!parallel_) return run_part(0, loaded, next, tokens);
  if (by_tokens) ranks_.all_reduce(tokens).wait();
  // Each part draws numbers of its own, whichever rank it is on, and changes running statistics
  // from where the step found them.
  Generator& generator = default_generator();
  const PhiloxKey start = generator.state();
  std::optional<RunningStatistics> statistics;
  if (config_.train.shards) statistics.emplace(*learner_.model, all_parts_, parts_);
  const Tensor losses = zeros({parts_}, {.device = device_});
  for (int64_t p = 0; p < parts_; ++p) {
    Generator own;
    own.set_state({seed_of_part(start.seed, first_part_ + p), start.stream, start.base});
    const DrawScope draws(own);
    losses.select(0, p).copy_(run_part(p, loaded, next, tokens));
    if (statistics) statistics->end_part(p, share_of(p));
  }
  generator.set_state({start.seed, start.stream + kDrawsOfAStep, start.base});
  if (statistics) statistics->join(ranks_);
  return losses;
}

// The mean loss.
Tensor Step::forward_and_backward(const NextBatch& next) {
  const Tensor own = run_parts(next);
  if (!parallel_) return own;
  const Tensor losses = zeros({all_parts_}, {.device = device_});
  ranks_.all_gather(losses, own).wait();
  return config_.train.shards ? sum(losses) : mean(losses);
}

Tensor Step::clip_gradients() {
  const TrainConfig& c = config_.train;
  const Tensor norm = c.clip_norm ? optim::clip_grad_norm_(learner_.params, *c.clip_norm)
                                  : optim::get_total_norm(optim::grads_of(learner_.params));
  if (c.clip_value) optim::clip_grad_value_(learner_.params, *c.clip_value);
  return norm;
}

// Not 0 where the last step is not to be taken, found on the device.
Tensor Step::found_inf() const {
  const kernels::Unscale is_bad{{}, kernels::pointer<float>(one_)};
  const Tensor found = kernels::join_list("found_inf", is_bad, {row_});
  if (config_.train.on_nan == OnNan::kSkip) return found;
  if (!learner_.scaler) return bad_.add_(found);
  // An overflow under a loss scale is no harm: the scaler lowers it.
  bad_.add_(kernels::join_list("found_inf", is_bad, {row_.narrow(0, 0, 1)}));
  return found + bad_;
}

// --- as a CUDA graph ---

std::string Step::why_eager() const {
  const TrainConfig& c = config_.train;
  if (c.graph == Graph::kOff) return "train.graph is off";
  if (device_.is_cpu()) return "the run is on the CPU";
  if (is_watched_) return "an observer may hook into them";
  if (c.graph == Graph::kAuto && models().is_added(config_.model.type)) {
    return "a custom model may do other things each time; train.graph=on says that it does not";
  }
  if (c.accumulate > kMostBatches) return cat("train.accumulate is above ", kMostBatches);
  return "";
}

void Step::reset() {
  forgive();
  buffers_.accept();
  at_.reset();
  graph_.reset();
  graphs_logged_ = 0;
  if (!why_eager().empty()) return;
  graph_ = std::make_unique<StepGraph>([this](const std::vector<Tensor>& in) {
    size_t i = 0;
    compute([&] { return Batch{in.at(i++), in.at(i++)}; });
    return std::vector<Tensor>{row_};
  });
}

void Step::replay() {
  std::vector<Tensor> in;
  for (int64_t i = batches_from(at_->batch); i > 0; --i) {
    const Batch b = next_batch();
    in.insert(in.end(), {b.inputs, b.targets});
  }
  (void)(*graph_)(in);
  if (!graph_->reason().empty()) {
    warn(cat("steps do not run as a CUDA graph: ", graph_->reason()));
    graph_.reset();
  } else if (graph_->num_graphs() > graphs_logged_) {
    graphs_logged_ = graph_->num_graphs();
    inform(cat("steps run as a CUDA graph for batches ", to_string(in[0].shape()),
               in.size() > 2 ? cat(" and ", in.size() / 2 - 1, " more") : ""));
  }
}

// --- where it went wrong ---

std::string Step::first_bad(Position at, PhiloxKey random) {
  const PhiloxKey now = default_generator().state();
  default_generator().set_state(random);
  learner_.model->train();
  at_.reset();
  go_to(at);
  std::string found = first_bad_tensor(
      *learner_.model, [this] { return run_parts([this] { return loader_.next(); }); });
  at_.reset();
  default_generator().set_state(now);
  if (ranks_.size() == 1) return found;
  // Gradients are of all ranks: the forward pass says where it began.
  const std::vector<std::string> all = ranks_.all_gather_text(found);
  const auto first = std::ranges::find_if(all, [](const std::string& text) {
    return !text.empty() && !text.starts_with("the gradient");
  });
  if (first == all.end()) return found;
  const bool is_of_all = std::ranges::count(all, *first) == std::ssize(all);
  return *first + (is_of_all ? "" : " on " + ranks_.name_of(int(first - all.begin())));
}

}  // namespace taper::v0::runner
