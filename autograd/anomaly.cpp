#include "autograd/anomaly.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include "autograd/module_guard.h"
#include "framework/profiler/profiler.h"

namespace taper::v0 {
namespace {

thread_local bool detects = false;

// The modules whose forward() is running, outermost first.
struct Running {
  std::string name;
  std::unique_ptr<RecordFunction> range{};
};
thread_local std::vector<Running> forwards;

std::string running_path() {
  std::string path;
  for (const Running& module : forwards) path += path.empty() ? module.name : "." + module.name;
  return path;
}

struct Frame {
  std::string function, place;
};

Frame frame_at(void* address) {
  Dl_info info{};
  // `address` is a return address. The byte before it belongs to the call instruction.
  const char* call = static_cast<char*>(address) - 1;
  if (!dladdr(call, &info) || !info.dli_fname) return {"", "?"};
  Frame frame;
  const std::string file = info.dli_fname;
  char offset[24];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                size_t(call - static_cast<const char*>(info.dli_fbase)));
  frame.place = file.substr(file.rfind('/') + 1) + offset;
  if (info.dli_sname) frame.function = demangled(info.dli_sname);
  return frame;
}

// Returns whether a function belongs to the library, judged by its name without template arguments,
// parameters and return type. Tests do not count as the library.
bool is_own(const std::string& function) {
  static const std::string unnamed = "(anonymous namespace)";
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < function.size(); ++i) {
    if (function.compare(i, unnamed.size(), unnamed) == 0) {
      i += unnamed.size() - 1;
      continue;
    }
    depth += (function[i] == '<') - (function[i] == '>');
    if (function[i] == '(' && depth == 0) break;
    if (depth == 0) name += function[i];
  }
  name = name.substr(name.rfind(' ') + 1);
  return name.starts_with("taper::") && !name.starts_with("taper::test::");
}

}  // namespace

std::string demangled(const char* name) {
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(name, nullptr, nullptr, nullptr), std::free);
  std::string text = whole ? whole.get() : name;
  // Removes the version namespace, which nobody writes in source code.
  for (size_t at = 0; (at = text.find("taper::v0::", at)) != std::string::npos;) {
    text.erase(at + 7, 4);
  }
  return text;
}

std::string short_name(const std::type_info& type) {
  std::string name = demangled(type.name());
  if (name.ends_with('>')) {
    size_t open = name.size() - 1;
    for (int depth = 1; depth > 0;) {
      --open;
      depth += (name[open] == '>') - (name[open] == '<');
    }
    name.resize(open);
  }
  const size_t scope = name.rfind("::");
  return scope == name.npos ? name : name.substr(scope + 2);
}

bool is_anomaly_enabled() { return detects; }
void set_detect_anomaly(BoolArg on) { detects = on; }

ModuleGuard::ModuleGuard(const std::string& name) : entered_(!name.empty()) {
  if (!entered_) return;
  forwards.push_back({name});
  if (!is_observed()) return;
  forwards.back().range =
      std::make_unique<RecordFunction>(running_path(), RecordFunction::RangeKind::kModule);
}
ModuleGuard::~ModuleGuard() {
  if (entered_) forwards.pop_back();
}

std::unique_ptr<ForwardCall> current_call() {
  auto call = std::make_unique<ForwardCall>();
  call->depth = backtrace(call->addresses, ForwardCall::kDeepest);
  call->module = running_path();
  return call;
}

std::string to_string(const ForwardCall& call) {
  std::string text = "The forward was called";
  if (!call.module.empty()) text += " in module " + call.module + ",";
  text += " at:";
  std::vector<Frame> frames;
  // Skip the frames of current_call (this file) and new_node.
  for (int i = 2; i < call.depth; ++i) frames.push_back(frame_at(call.addresses[i]));
  // Start at the first named frame outside the library, or print all frames if there is none.
  auto first = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
    return !frame.function.empty() && !is_own(frame.function);
  });
  if (first == frames.end()) first = frames.begin();
  for (; first != frames.end(); ++first) {
    text += concat_to_string("\n  ", first->function, first->function.empty() ? "" : " ", "(",
                             first->place, ")");
  }
  return text;
}

void check_no_nan(const char* name, std::span<const Tensor> gradients) {
  const NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& dx = gradients[i];
    require(!dx.defined() || !dx.is_floating_point() || !dx.isnan().any().item<bool>(),
            "Function '", name, "' returned nan values in its ", i, "th output.");
  }
}

}  // namespace taper::v0
