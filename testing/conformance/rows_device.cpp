// Rows of the device object: its grammar, its texts, and ordinals that do not exist.
#include "framework/cuda.h"
#include "framework/factories.h"
#include "testing/conformance/families.h"
#include "testing/conformance/python.h"

namespace taper::conformance {
namespace {

Row parse(const std::string& text) {
  return {.name = cat("device.parse[", text, "]"), .run = [text] { return repr(Device(text)); }};
}

}  // namespace

std::vector<Row> device_rows() {
  std::vector<Row> rows;
  for (const char* text : {"cpu", "cuda", "cuda:0", "cuda:1", "cuda:7", "cpu:0", "",
                           "cuda:", "cuda:01", "cuda:-1", "gpu", "cuda :1", "cuda:999"}) {
    rows.push_back(parse(text));
  }
  rows.back().differs = "an index beyond what can exist is refused, not wrapped around";
  rows.back().ours = "RuntimeError: Device index out of range in device string 'cuda:999'";

  rows.push_back({.name = "device.two_args", .run = [] { return repr(Device("cuda", 0)); }});
  rows.push_back(
      {.name = "device.two_args_index_twice", .run = [] { return repr(Device("cuda:0", 0)); }});
  rows.push_back({.name = "device.negative_index", .run = [] { return repr(Device("cuda", -1)); }});
  rows.push_back({.name = "device.int", .run = [] { return repr(Device(1)); }});
  rows.push_back({.name = "device.str",
                  .run = [] { return py_list(Device("cuda"), Device("cuda:0"), Device("cpu")); }});
  rows.push_back({.name = "device.eq_unindexed",
                  .run = [] { return py(Device("cuda") == Device("cuda:0")); }});
  rows.push_back({.name = "device.bad_ordinal_use", .gpus = 1, .run = [] {
                    return to_string(zeros({1}, {.device = cuda::device_count()}).device());
                  }});
  rows.push_back(
      {.name = "device.current", .gpus = 1, .run = [] { return py(cuda::current_device()); }});
  return rows;
}

}  // namespace taper::conformance
