// Rows of the device object: its syntax, its texts, and indices of devices that do not exist.
#include <string_view>

#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
void device_rows(Rows& rows) {
  for (const char* text : {"cpu", "cuda", "cuda:0", "cuda:1", "cuda:7", "cpu:0", "",
                           "cuda:", "cuda:01", "cuda:-1", "gpu", "cuda :1", "cuda:999"}) {
    rows(concat_to_string("device.parse[", text, "]"), 0, [text] { return repr(Device(text)); });
    if (std::string_view(text) != "gpu") continue;
    rows.back().differs_in("only the types that exist here are listed",
                           "RuntimeError: Unknown device type 'gpu' in device string 'gpu'");
  }
  rows.back().differs_in("an index beyond what can exist is refused, not wrapped around",
                         "RuntimeError: Device index out of range in device string 'cuda:999'");
  rows("device.two_args", 0, [] { return repr(Device("cuda", 0)); });
  rows("device.two_args_index_twice", 0, [] { return repr(Device("cuda:0", 0)); });
  rows("device.negative_index", 0, [] { return repr(Device("cuda", -1)); });
  rows("device.int", 0, [] { return repr(Device(1)); });
  rows("device.str", 0, [] { return py_list(Device("cuda"), Device("cuda:0"), Device("cpu")); });
  rows("device.eq_unindexed", 0, [] { return py(Device("cuda") == Device("cuda:0")); });
  rows("device.bad_ordinal_use", 1,
       [] { return to_string(zeros({1}, {.device = cuda::device_count()}).device()); });
  rows("device.current", 1, [] { return py(cuda::current_device()); });
}

}  // namespace taper::v0::conformance
