#include "apps/runner/train/step.h"

#include <algorithm>
#include <chrono>

#include "apps/runner/base/errors.h"
#include "apps/runner/passes/bad_tensor.h"
#include "apps/runner/settings/autocast.h"
#include "apps/runner/settings/placement.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
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

// --- the training step ---

void Step::run(int64_t steps_done) {
  training_.step_schedule(steps_done);  // the learning rate of this step
  buffers_.begin();
  if (can_replay()) {
    replay_graph();
  } else {
    train_on([this] { return next_batch(); });
  }
  at_->batch += batches_from(at_->batch);
}

// Launches all work that the device does in a step. Never synchronizes, so that the step can be
// captured as a CUDA graph. micro_batches_ divides the batches of the step over ranks, shards and
// accumulation, and calls the lambda below for each micro-batch; without these there is one
// micro-batch. replay_graph() replays the whole function.
void Step::train_on(const NextBatch& next) {
  begin_undoable();
  training_.optimizer->zero_grad();
  const Tensor losses = micro_batches_.run(at_->batch, next, [this](const MicroBatch& batch) {
    return backward(batch.share_of_mean(forward(batch)));
  });
  const Tensor loss = micro_batches_.mean_loss(losses);
  const Tensor norm = clip_gradients();
  update_unless(find_non_finite(loss, norm));
}

// Returns the mean loss of a micro-batch on the run's device. It is computed where the outputs are.
Tensor Step::forward(const MicroBatch& batch) const {
  const RecordFunction range("forward");
  const AutocastGuard half = autocast_of(config_, device_.type());
  if (computes_loss_in_blocks(*training_.model, loss_, batch.inputs.numel())) {
    return run_loss_in_blocks(*training_.model, config_.model, loss_, batch.inputs, batch.targets)
        .to(device_);
  }
  const Tensor outputs = run_model(*training_.model, config_.model, data_, batch.inputs);
  return run_mean_loss(loss_, config_.loss, outputs, batch.targets, batch.weights).to(device_);
}

// Adds the gradients of the loss to those of the parameters. Returns the loss without its graph.
Tensor Step::backward(const Tensor& loss) {
  if (!is_checked_) check_all_registered(*training_.model, loss);
  is_checked_ = true;
  const RecordFunction range("backward");
  (training_.scaler ? training_.scaler->scale(loss) : loss).backward();
  return loss.detach();
}

// Returns the norm of all gradients before clipping.
Tensor Step::clip_gradients() const {
  const TrainConfig& c = config_.train;
  if (training_.scaler) training_.scaler->unscale_(*training_.optimizer);
  const Tensor norm = c.clip_norm ? optim::clip_grad_norm_(training_.params, *c.clip_norm)
                                  : optim::get_total_norm(optim::grads_of(training_.params));
  if (c.clip_value) optim::clip_grad_value_(training_.params, *c.clip_value);
  return norm;
}

// Stores loss and norm for the log. Returns a 0-dim tensor that is not 0 if this step must not
// change the weights.
Tensor Step::find_non_finite(const Tensor& loss, const Tensor& norm) const {
  loss_and_norm_.select(0, 0).copy_(loss);
  loss_and_norm_.select(0, 1).copy_(norm);
  const kernels::Unscale is_bad{{}, kernels::pointer<float>(one_)};
  const Tensor found = kernels::join_list("found_inf", is_bad, {loss_and_norm_});
  if (config_.train.on_nan == OnNan::kSkip) return found;
  if (!training_.scaler) return num_bad_.add_(found);
  // A gradient that overflows under a loss scale is expected: the scaler lowers the scale. Only a
  // non-finite loss counts as a bad step.
  num_bad_.add_(kernels::join_list("found_inf", is_bad, {loss_and_norm_.narrow(0, 0, 1)}));
  return found + num_bad_;
}

// Updates weights, loss scale and averages, except where is_bad (0-dim, on the device) is not 0.
void Step::update_unless(const Tensor& is_bad) {
  TrainingState& t = training_;
  const auto step = [&] {
    try {
      t.optimizer->step_unless(is_bad);
    } catch (const std::exception& error) {
      optimizers().refuse_call(config_.optimizer, error);
      throw;
    }
  };
  is_updating_ = true;
  if (t.shards) t.shards->step_in_pieces(step);
  if (!t.shards) step();
  if (t.scaler) t.scaler->update();
  // The running statistics of a skipped step's batch may contain NaN, too.
  if (config_.train.on_nan == OnNan::kSkip) buffers_.restore_where(is_bad);
  if (t.ema) t.ema->update();
  is_updating_ = false;
}

// --- construction ---

Step::Step(const RunConfig& config, const data::Splits& data, Batches& loader,
           TrainingState& training, const Communicator& ranks, bool is_observed)
    : config_(config),
      device_(ranks.device()),
      data_(data),
      is_observed_(is_observed),
      loader_(loader),
      training_(training),
      ranks_(ranks),
      micro_batches_(config, data, loader, *training.model, ranks),
      loss_(losses().make(config.loss, {.task = data.task,
                                        .class_weights = data.class_weights,
                                        .is_multi_label = !data.labels.empty(),
                                        .device = device_})),
      loss_and_norm_(zeros({2}, {.device = device_})),
      one_(ones({}, {.device = device_})),
      num_bad_(zeros({}, {.device = device_})),
      buffers_(*training.model, config.train.on_nan == OnNan::kSkip) {
  reset();
  const Graph wanted = config_.train.graph;
  if (!graph_ && (wanted == Graph::kOn || (wanted == Graph::kAuto && device_.is_cuda()))) {
    log_info(concat_to_string("steps run without a CUDA graph: ", why_no_graph()));
  }
}

// --- batches ---

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

void Step::share_buffers() {
  if (micro_batches_.share_buffers()) buffers_.accept();
}

// --- undoing a step ---

void Step::begin_undoable() {
  is_updating_ = false;
  buffers_.take();
}

bool Step::undo() {
  at_.reset();
  return !is_updating_ && buffers_.restore();
}

void Step::release_memory() {
  graph_.reset();
  training_.model->zero_grad();
  if (uses_gpu(*training_.model, device_)) cuda::empty_cache();
}

// --- the step as a CUDA graph ---

// The maximum number of batches that one graph may read, because all of them are on the device at
// once.
static constexpr int64_t kMaxGraphBatches = 64;

std::string Step::why_no_graph() const {
  const TrainConfig& c = config_.train;
  if (c.graph == Graph::kOff) return "train.graph is off";
  if (device_.is_cpu()) return "the run is on the CPU";
  if (training_.model->is_placed()) return "model.placement puts the model on several devices";
  if (is_observed_) return "an observer may register hooks";
  if (c.graph == Graph::kAuto && models().is_added(config_.model.type)) {
    return "a custom model may change from step to step; train.graph=on asserts that it does not";
  }
  if (c.accumulate > kMaxGraphBatches)
    return concat_to_string("train.accumulate is above ", kMaxGraphBatches);
  return "";
}

void Step::reset() {
  allow_updates();
  buffers_.accept();
  at_.reset();
  graph_.reset();
  graphs_logged_ = 0;
  if (!why_no_graph().empty()) return;
  graph_ = std::make_unique<StepGraph>([this](const std::vector<Tensor>& in) {
    size_t i = 0;
    train_on([&] {
      Batch batch{in.at(i), in.at(i + 1)};
      if (data_.has_weights) batch.others = {in.at(i + 2)};
      i += data_.has_weights ? 3 : 2;
      return batch;
    });
    return std::vector<Tensor>{loss_and_norm_};
  });
}

bool Step::can_replay() const {
  // A graph of several parts contains the numbers of samples as constants, and the last step of an
  // epoch may have fewer samples.
  const int64_t usual = batches_from(at_->batch) * config_.train.batch_size;
  const bool is_uneven = micro_batches_.is_divided() && samples_from(at_->batch) != usual;
  return graph_ && !is_uneven;
}

void Step::replay_graph() {
  std::vector<Tensor> in;
  for (int64_t i = batches_from(at_->batch); i > 0; --i) {
    const Batch b = next_batch();
    in.insert(in.end(), {b.inputs, b.targets});
    if (data_.has_weights) in.push_back(b.others.at(0));
  }
  (void)(*graph_)(in);
  if (!graph_->reason().empty()) {
    warn(concat_to_string("steps do not run as a CUDA graph: ", graph_->reason()));
    graph_.reset();
  } else if (graph_->num_graphs() > graphs_logged_) {
    graphs_logged_ = graph_->num_graphs();
    const size_t more = in.size() / (data_.has_weights ? 3 : 2) - 1;
    log_info(concat_to_string("steps run as a CUDA graph for batches ", to_string(in[0].shape()),
                              more > 0 ? concat_to_string(" and ", more, " more") : ""));
  }
}

// --- the search for a bad tensor ---

std::string Step::find_bad_tensor(Position at, PhiloxKey random) {
  const PhiloxKey now = default_generator().state();
  default_generator().set_state(random);
  training_.model->train();
  at_.reset();
  go_to(at);
  std::string found = first_bad_tensor(*training_.model, [this] {
    return micro_batches_.run(
        at_->batch, [this] { return loader_.next(); },
        [this](const MicroBatch& batch) { return backward(batch.share_of_mean(forward(batch))); });
  });
  at_.reset();
  default_generator().set_state(now);
  if (ranks_.size() == 1) return found;
  // All ranks have the same gradients. Only the forward pass shows on which rank the first
  // non-finite tensor was.
  const std::vector<std::string> all = ranks_.all_gather_text(found);
  const auto first = std::ranges::find_if(all, [](const std::string& text) {
    return !text.empty() && !text.starts_with("the gradient");
  });
  if (first == all.end()) return found;
  const bool is_of_all = std::ranges::count(all, *first) == std::ssize(all);
  return *first + (is_of_all ? "" : " on " + ranks_.name_of(int(first - all.begin())));
}

}  // namespace taper::v0::runner
