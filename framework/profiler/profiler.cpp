#include "framework/profiler/profiler.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "framework/cuda/driver.h"
#include "framework/host/atomic_file.h"
#include "framework/memory/cpu_allocator.h"
#include "framework/memory/cuda_memory.h"

namespace taper::v0 {
namespace detail {

struct Range {
  std::string name, module;
  RecordFunction::RangeKind kind;
  int thread;
  int64_t begin, end;  // ns
  Device device;
  cuda::Event first, last;
  int stream;
  int64_t bytes;  // allocated on the device at the end of the op
};

// A GPU time stamp and the host time stamp of the same moment.
struct Origin {
  cuda::Event event{true};
  int64_t time = 0;
};

}  // namespace detail

namespace {

using detail::Origin;
using detail::Range;

using RangeKind = RecordFunction::RangeKind;

int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::atomic<int> threads{0};
const thread_local int this_thread = threads++;
thread_local std::vector<std::string> modules;  // paths of the modules that are running

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool plain = static_cast<unsigned char>(c) >= 32;
    if (c == '"' || c == '\\') out += '\\';
    out += plain ? c : ' ';
  }
  return out + '"';
}

// Formats with three decimals and a decimal point in any locale.
std::string microseconds(double ns) {
  const int64_t rounded = std::llround(ns);
  const std::string decimals = concat_to_string(rounded % 1000);
  return concat_to_string(rounded / 1000, ".", std::string(3 - decimals.size(), '0'), decimals);
}

}  // namespace

struct Profiler::Session {
  int64_t begin = now(), end = 0;
  uint64_t number = 0;  // number of the session
  std::vector<Range> ranges;
  std::map<int, Origin> origins;
  std::map<const void*, int> streams;  // numbered in the order of their first ops

  std::string range_json(const Range& r) const;
  std::string gpu_json(const Range& r) const;
};

namespace {

std::mutex mutex;  // guards the members below, and the session's members while it runs
Profiler::Session* session = nullptr;
uint64_t sessions = 0;

void observe(int who, bool on) {
  if (on) detail::observers |= who;
  if (!on) detail::observers &= ~who;
}

std::string full_name(const char* name, RangeKind kind) {
  if (kind == RangeKind::kOp) return concat_to_string("aten::", name);
  return kind == RangeKind::kModule ? concat_to_string("nn.Module: ", name) : std::string(name);
}

// A range is identified by three numbers: the number of its session, so that a range that outlives
// its session closes nothing; whether it belongs to a module; and its index, which starts at 1.
constexpr int kIndexBits = 32;
constexpr uint64_t kIsModule = uint64_t(1) << 63;

uint64_t open_range(const char* name, RangeKind kind, Device device) {
  const std::lock_guard lock(mutex);
  if (!session) return 0;
  if (kind == RangeKind::kModule) modules.emplace_back(name);
  const std::string module = modules.empty() ? "" : modules.back();
  Range r{full_name(name, kind), module, kind, this_thread, now(), 0, device, cuda::Event(true),
          cuda::Event(true),     0,      0};
  if (kind == RangeKind::kOp && device.is_cuda()) {
    const int gpu = device.index();
    const cuda::Stream stream = cuda::Stream::current(gpu);
    if (!session->origins.contains(gpu)) {
      Origin& origin = session->origins[gpu];
      cuda::synchronize(gpu);
      origin.event.record(stream);
      origin.event.synchronize();
      origin.time = now();
    }
    const int streams = int(session->streams.size());
    r.stream = session->streams.try_emplace(stream.handle(), streams).first->second;
    r.first.record(stream);
  }
  session->ranges.push_back(std::move(r));
  return (kind == RangeKind::kModule ? kIsModule : 0) | session->number << kIndexBits |
         session->ranges.size();
}

void close_range(uint64_t number) {
  if ((number & kIsModule) != 0) modules.pop_back();
  const std::lock_guard lock(mutex);
  if (!session || (number & ~kIsModule) >> kIndexBits != session->number) return;
  Range& r = session->ranges[uint32_t(number) - 1];
  if (r.kind == RangeKind::kOp && r.device.is_cuda()) {
    r.last.record(cuda::Stream::current(r.device.index()));
  }
  r.end = now();
  r.bytes = int64_t(r.device.is_cuda() ? cuda::memory_allocated(r.device.index())
                                       : cpu::allocated_on(r.device.index()));
}

std::string event(const Range& r, const char* category, int process, int thread, double begin,
                  double duration) {
  std::string args = r.module.empty() ? "" : concat_to_string("\"module\":", quoted(r.module));
  if (r.kind == RangeKind::kOp)
    args += concat_to_string(args.empty() ? "" : ",", "\"Total Allocated\":", r.bytes);
  return concat_to_string("{\"ph\":\"X\",\"cat\":\"", category, "\",\"name\":", quoted(r.name),
                          ",\"pid\":", process, ",\"tid\":", thread,
                          ",\"ts\":", microseconds(begin), ",\"dur\":", microseconds(duration),
                          ",\"args\":{", args, "}}");
}

std::string process_name(int process, const std::string& name) {
  return concat_to_string("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", process,
                          ",\"args\":{\"name\":", quoted(name), "}}");
}

}  // namespace

void RecordFunction::begin(const char* name, RangeKind kind, Device device) {
  if (*name == 0) return;
  observers_ = detail::observers;
  if ((observers_ & detail::kTraced) != 0) number_ = open_range(name, kind, device);
  if constexpr (kHasCuda) {
    if ((observers_ & detail::kMarked) != 0) {
      cuda::driver::push_range(full_name(name, kind).c_str());
    }
  }
}

void RecordFunction::end() noexcept {
  if constexpr (kHasCuda) {
    if ((observers_ & detail::kMarked) != 0) cuda::driver::pop_range();
  }
  try {
    if (number_ != 0) close_range(number_);
  } catch (const Error&) {
    return;  // the device is lost; the next call on it reports that
  }
}

Profiler::Profiler() : session_(std::make_shared<Session>()) {
  const std::lock_guard lock(mutex);
  if (session) throw Error("Profiler is already enabled: one at a time, of all threads");
  session_->number = ++sessions;
  session = session_.get();
  observe(detail::kTraced, true);
}

Profiler::~Profiler() {
  const std::lock_guard lock(mutex);
  if (session == session_.get()) {
    session = nullptr;
    observe(detail::kTraced, false);
  }
}

void Profiler::stop() {
  const std::lock_guard lock(mutex);
  if (session != session_.get()) return;
  session = nullptr;
  observe(detail::kTraced, false);
  session_->end = now();
  for (const auto& [gpu, origin] : session_->origins) cuda::synchronize(gpu);
}

std::string Profiler::Session::range_json(const Range& r) const {
  static constexpr const char* kCategories[] = {"user_annotation", "cpu_op", "cpu_op", "module"};
  const int64_t last = r.end > 0 ? r.end : end;  // some ranges may still be open
  return event(r, kCategories[size_t(r.kind)], 0, r.thread, double(r.begin - begin),
               double(last - r.begin));
}

std::string Profiler::Session::gpu_json(const Range& r) const {
  const Origin& origin = origins.at(r.device.index());
  const double first = origin.event.elapsed_time(r.first) * 1e6;
  const double duration = r.first.elapsed_time(r.last) * 1e6;
  return event(r, "gpu_op", 1 + r.device.index(), r.stream, double(origin.time - begin) + first,
               duration);
}

std::vector<Profiler::Allocation> Profiler::allocations() {
  stop();
  std::vector<Allocation> out;
  for (const Range& r : session_->ranges) {
    if (r.kind == RangeKind::kOp && r.end > 0) out.push_back({r.device, r.bytes});
  }
  return out;
}

std::vector<int64_t> Profiler::allocated_bytes() {
  std::vector<int64_t> out;
  for (const Allocation& allocation : allocations()) out.push_back(allocation.bytes);
  return out;
}

void Profiler::export_chrome_trace(const std::string& path) {
  stop();
  std::string out =
      concat_to_string("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                       process_name(0, "CPU"));
  for (const auto& [gpu, origin] : session_->origins) {
    out += ",\n" + process_name(1 + gpu, concat_to_string("GPU ", gpu));
  }
  for (const Range& r : session_->ranges) {
    out += ",\n" + session_->range_json(r);
    const bool on_gpu = r.kind == RangeKind::kOp && r.device.is_cuda() && r.end > 0;
    if (on_gpu) out += ",\n" + session_->gpu_json(r);
  }
  write_atomically(path, out + "\n]}\n");
}

void emit_nvtx(BoolArg on) {
  if constexpr (kHasCuda) observe(detail::kMarked, on);
}

}  // namespace taper::v0
