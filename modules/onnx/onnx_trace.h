// A forward pass as it is traced for ONNX, op by op; not a public header.
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

// Where a tensor was made: output `output` of op number `op`; none for a constant.
struct Origin {
  std::optional<size_t> op;
  size_t output = 0;
};

// Pseudo ops that stand before the others.
constexpr size_t kInputs = 0, kState = 1;

struct Step {
  TracedOp op;
  std::vector<Origin> origins;     // of the inputs
  std::vector<uint32_t> versions;  // of the inputs, when they were read
  std::string module;
  bool follows = false;  // from the inputs
  bool depends = true;   // on the inputs, or on the state by ops with a form; else: constants
};

// Tensors are told apart by the memory that they show, so that detached ones and views of the same
// elements are one; all stay alive until the end.
class Recording {
 public:
  Recording(const OnnxFunction& f, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& state);

  Origin origin_of(const Tensor& x) const;
  // The same without the makers of constants.
  Origin origin_to_write(const Origin& origin) const {
    return origin.op && steps[*origin.op].depends ? origin : Origin();
  }

  // Whether x was computed of the inputs, by ops that are traced or that the tape knows, or shares
  // its memory with what was.
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
  // What is decided by the value would stay as it is in the example: refuses.
  void refuse_read(const Tensor& x) const;

  std::map<Key, Made> made_;
  std::set<const Storage*> follow_;  // kept by the steps
};

// NotImplementedError.
[[noreturn]] void refuse(const std::string& what, const std::string& module);

}  // namespace taper::v0::onnx_export
