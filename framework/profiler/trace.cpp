#include "framework/profiler/trace.h"

#include <utility>

#include "framework/error.h"

namespace taper::inline v0 {
namespace {

thread_local Trace* current = nullptr;

}  // namespace

Trace::Trace(std::function<void(TracedOp)> note) : note_(std::move(note)) {
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

}  // namespace taper::inline v0
