// The recording of a forward pass for the ONNX export. Not a public header.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "framework/profiler/trace.h"
#include "modules/onnx/onnx_graph.h"

namespace taper::v0::onnx_export {

// The source of a tensor: output `output` of op number `op`. A constant has no source, so `op` is
// empty.
struct Origin {
  std::optional<size_t> op;
  size_t output = 0;
};

// Two ops that precede the recorded ones. Their outputs are the inputs, and the parameters and
// buffers.
constexpr size_t kInputs = 0, kState = 1;

struct Step {
  TracedOp op;
  std::vector<Origin> origins;     // of the inputs
  std::vector<uint32_t> versions;  // of the inputs, when they were read
  std::string module;
  bool follows = false;  // depends on the inputs
  // whether it depends on the inputs, or on the state through ops with an ONNX form; if not, it is
  // a constant
  bool depends = true;
};

// Records the ops of a pass. Tensors are identified by the memory to which they refer, so that
// detached tensors and views of the same elements count as the same. All tensors stay alive until
// the end.
class Recording {
 public:
  Recording(const OnnxFunction& f, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& state);

  Origin origin_of(const Tensor& x) const;
  // Like origin_of(), but returns no source for a tensor that is written as a constant.
  Origin origin_to_write(const Origin& origin) const {
    return origin.op && steps[*origin.op].depends ? origin : Origin();
  }

  // Returns whether x was computed from the inputs, by ops that are traced or on the tape, or
  // shares memory with such a tensor.
  bool follows(const Tensor& x) const;

  std::vector<Step> steps;
  std::vector<Tensor> outputs;

 private:
  using Key = std::tuple<const Storage*, int64_t, DType, std::vector<int64_t>>;
  struct Made {
    Origin origin;
    uint32_t version;
  };

  static Key key_of(const Tensor& x);
  void note(TracedOp op);
  // Throws because the host reads a value that depends on the inputs. A decision that depends on it
  // would stay fixed as in the example.
  void refuse_read(const Tensor& x) const;

  std::map<Key, Made> made_;
  std::set<const Storage*> follow_;  // kept alive by the steps
};

// Throws NotImplementedError.
[[noreturn]] void refuse(const std::string& what, const std::string& module);

}  // namespace taper::v0::onnx_export
