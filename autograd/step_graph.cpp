#include "autograd/step_graph.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "autograd/node.h"
#include "framework/cuda/driver.h"
#include "framework/factory/generator.h"
#include "framework/factory/low_precision_cache.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/memory/cuda_allocator.h"
#include "framework/memory/small_blocks.h"
#include "framework/profiler/profiler.h"

namespace taper::v0 {

// A step captured for one combination of shapes. It has its own stream and therefore its own
// memory, because memory that the graph uses must not be given to others between its kernels.
struct StepGraph::Entry {
  struct Given {
    Tensor tensor;
    uint32_t version;
  };
  std::vector<TensorMeta> metas;  // of its inputs
  cuda::Stream stream;
  int calls = 0;
  std::shared_ptr<void> graph;
  std::vector<Tensor> inputs, outputs;  // the tensors that the graph reads and writes
  std::vector<Given> copied;            // the tensors that were last copied into `inputs`
  Tensor base;                          // 0-dim int64: the index of the first random draw
  uint64_t draws = 0;
  std::vector<LowPrecisionCopy> low_precision_copies;  // parameter copies that the graph uses
  uint64_t low_precision_changes = 0;
  std::string failure;  // why the capture failed, if it did

  bool fits(const std::vector<Tensor>& given) const {
    return std::ranges::equal(given, metas, [](const Tensor& x, const TensorMeta& m) {
      return x.shape() == m.shape && x.dtype() == m.dtype && x.device() == m.device;
    });
  }
};

namespace {

// Switches to the graph's stream for this scope and orders it with the caller's stream.
class OnStream {
 public:
  explicit OnStream(const cuda::Stream& stream)
      : caller_(cuda::Stream::current(stream.device())), stream_(stream), guard_(stream) {
    order(caller_, stream_);
  }
  ~OnStream() { order(stream_, caller_); }
  OnStream& operator=(OnStream&&) = delete;  // neither copied nor moved

 private:
  static void order(const cuda::Stream& first, const cuda::Stream& then) {
    cuda::Event event;
    event.record(first);
    event.wait(then);
  }

  cuda::Stream caller_, stream_;
  cuda::StreamGuard guard_;
};

}  // namespace

StepGraph::StepGraph(Step step, int warm_up, size_t max_graphs)
    : step_(std::move(step)), warm_up_(warm_up), max_graphs_(max_graphs) {
  require<ValueError>(warm_up >= 1, "StepGraph: warm_up must be at least 1, got ", warm_up);
}

StepGraph::~StepGraph() {
  if constexpr (kHasCuda) {
    for (const auto& entry : entries_) {
      if (!entry->graph) continue;
      // A replay may still be running. Its memory is released in stream order.
      try {
        const OnStream scope(entry->stream);
        cuda::hold_memory(entry->stream, false);
      } catch (const Error&) {
        continue;  // the driver is shutting down: keep the memory
      }
    }
  }
}

size_t StepGraph::num_graphs() const {
  return size_t(std::ranges::count_if(entries_, [](const auto& e) { return bool(e->graph); }));
}

std::vector<Tensor> StepGraph::call(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> outputs = step_(inputs);
  for (Tensor& y : outputs) y = y.detach();
  return outputs;
}

StepGraph::Entry* StepGraph::entry_for(const std::vector<Tensor>& inputs) {
  for (const auto& entry : entries_) {
    if (entry->fits(inputs)) return entry.get();
  }
  if (entries_.size() == max_graphs_) return nullptr;
  std::unique_ptr<Entry> entry(new Entry);
  entry->metas = std::vector<TensorMeta>(inputs.begin(), inputs.end());
  entry->stream = cuda::Stream::create(inputs[0].device().index());
  return entries_.emplace_back(std::move(entry)).get();
}

std::string StepGraph::reason_against(const std::vector<Tensor>& inputs) {
  if (inputs.empty()) return "the step has no inputs, so its device is unknown";
  for (const Tensor& x : inputs) {
    if (!x.is_cuda()) return concat_to_string("an input is on ", x.device());
    if (x.device() != inputs[0].device()) {
      return concat_to_string("the inputs are on ", inputs[0].device(), " and on ", x.device());
    }
  }
  if (uses_uncached_allocator()) {
    return "the plain allocator is in use (a sanitizer or TAPER_ALLOCATOR=plain)";
  }
  return "";
}

std::vector<Tensor> StepGraph::operator()(const std::vector<Tensor>& inputs) {
  reason_ = reason_against(inputs);
  Entry* found = reason_.empty() && !is_profiling() ? entry_for(inputs) : nullptr;
  if (!found) return call(inputs);
  Entry& entry = *found;
  if (entry.graph) return replay(entry, inputs);
  reason_ = entry.failure;
  if (!reason_.empty()) return call(inputs);
  if (entry.calls++ < warm_up_) {
    const OnStream scope(entry.stream);
    return call(inputs);
  }
  capture(entry, inputs);
  return entry.graph ? replay(entry, inputs) : call(inputs);
}

void StepGraph::capture(Entry& entry, const std::vector<Tensor>& inputs) {
  const OnStream scope(entry.stream);
  entry.base = Tensor::make({}, kInt64, inputs[0].device());
  for (const Tensor& x : inputs) {
    entry.inputs.push_back(Tensor::make(x.shape(), x.dtype(), x.device()));
    kernels::copy_into(entry.inputs.back(), x);
  }
  if constexpr (kHasCuda) {
    const int device = entry.stream.device();
    cuda::hold_memory(entry.stream, true);
    // At each replay, the captured kernels start drawing at the index stored in `base`.
    Generator replayed;
    replayed.set_state({default_generator().initial_seed(), 0,
                        static_cast<const uint64_t*>(entry.base.data_ptr())});
    const DrawGuard draws(replayed);
    const uint64_t mark = low_precision_mark();
    cuda::driver::begin_capture(device, entry.stream.handle());
    try {
      entry.outputs = call(entry.inputs);
    } catch (const std::exception& error) {
      entry.failure = error.what();
    }
    entry.draws = replayed.state().stream;
    entry.graph = cuda::driver::end_capture(device, entry.stream.handle());
    if (!entry.graph && entry.failure.empty()) {
      entry.failure = "the step contains operations that a CUDA graph cannot contain";
    }
    if (!entry.failure.empty()) entry.graph.reset();
    if (!entry.graph) cuda::hold_memory(entry.stream, false);
    reason_ = entry.failure;
    entry.low_precision_copies = low_precision_copies_since(mark);
    entry.low_precision_changes = low_precision_changes();
  }
}

std::vector<Tensor> StepGraph::replay(Entry& entry, const std::vector<Tensor>& inputs) {
  entry.copied.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Entry::Given& last = entry.copied[i];
    if (inputs[i].is_same(last.tensor) && inputs[i].version() == last.version) continue;
    kernels::copy_into(entry.inputs[i], inputs[i]);
    // An input that the step itself has written to since the capture must be copied each time.
    if (entry.inputs[i].version() == 0) last = {inputs[i], inputs[i].version()};
  }
  if (entry.low_precision_changes != low_precision_changes()) {
    restore_low_precision_copies(entry.low_precision_copies);
    entry.low_precision_changes = low_precision_changes();
  }
  if (entry.draws > 0) {
    kernels::fill(entry.base, int64_t(default_generator().next(entry.draws).stream));
  }
  const int device = entry.stream.device();
  if constexpr (kHasCuda) {
    const cuda::Stream current = cuda::Stream::current(device);
    cuda::driver::launch_graph(entry.graph.get(), device, current.handle());
  }
  return entry.outputs;
}

}  // namespace taper::v0
