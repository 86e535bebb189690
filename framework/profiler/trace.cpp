#include "framework/profiler/trace.h"

#include <functional>
#include <utility>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

thread_local Trace* current = nullptr;

}  // namespace

Trace::Trace(std::function<void(TracedOp)> note, std::function<void(const Tensor&)> read)
    : note_(std::move(note)), read_(std::move(read)) {
  if (current) throw Error("Trace: this thread has one already");
  current = this;
  ++detail::traces;
}

Trace::~Trace() {
  current = nullptr;
  --detail::traces;
}

void note_traced(TracedOp op) {
  if (current) current->note_(std::move(op));
}

void note_read(const Tensor& x) {
  if (is_tracing() && current) [[unlikely]]
    current->read_(x);
}

}  // namespace taper::v0
