// Random tensors are printed as by PyTorch. make_print_expected.py generates print_expected.txt and
// describes its format.
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "framework/cuda/cuda.h"
#include "framework/factory/format_tensor.h"
#include "taper.h"

namespace taper::v0 {
namespace {

struct Special {
  int64_t period;
  double value;
};

struct Case {
  int line = 0;
  DType dtype = kFloat32;
  Shape shape;
  int64_t m = 1, a = 0, seed = 0;
  std::vector<double> scales;
  std::vector<Special> specials;
  std::string tape;
  std::string on_cpu, on_cuda;
};

DType dtype_named(const std::string& name) {
  for (const DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    if (to_string(dtype) == name) return dtype;
  }
  throw Error(concat_to_string("print_expected.txt names the dtype '", name, "'"));
}

Special special_of(const std::string& text) {
  const size_t colon = text.find(':');
  return {std::stoll(text), std::stod(text.substr(colon + 1))};
}

// Reads one line of a case: a keyword and its values.
void read_line(Case& c, const std::string& line) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  if (word == ">") c.on_cpu += concat_to_string(c.on_cpu.empty() ? "" : "\n", line.substr(2));
  if (word == "<") c.on_cuda += concat_to_string(line.substr(2), "\n");
  if (word == "dtype" && in >> word) c.dtype = dtype_named(word);
  if (word == "shape") {
    std::vector<int64_t> sizes;
    for (int64_t n; in >> n;) sizes.push_back(n);
    c.shape = Shape(sizes);
  }
  if (word == "formula") in >> c.m >> c.a >> c.seed;
  if (word == "scales") {
    for (std::string s; in >> s;) c.scales.push_back(std::stod(s));
  }
  if (word == "specials") {
    for (std::string s; in >> s;) c.specials.push_back(special_of(s));
  }
  if (word == "tape") in >> c.tape;
  if (word == "cuda" && in >> word) c.on_cuda = c.on_cpu.substr(0, size_t(std::stoul(word)));
}

std::vector<Case> cases() {
  std::ifstream in(std::string(TAPER_SOURCE_DIR) + "/tests/conformance/print_expected.txt");
  std::vector<Case> out;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("#")) continue;
    if (line == "case") {
      out.emplace_back().line = number;
    } else {
      read_line(out.at(out.size() - 1), line);
    }
  }
  for (Case& c : out) c.on_cuda.pop_back();  // drops the final line end
  return out;
}

int64_t remainder(const Case& c, int64_t i) { return (i * 2654435761 + c.seed) % c.m - c.a; }

Tensor integers(const Case& c) {
  std::vector<int64_t> values(size_t(c.shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = remainder(c, int64_t(i)) * int64_t(c.scales.at(0));
  }
  return tensor_of(values.data(), c.shape).to(c.dtype);
}

Tensor floats(const Case& c) {
  std::vector<double> values(size_t(c.shape.numel()));
  for (int64_t i = 0; i < c.shape.numel(); ++i) {
    const size_t scale = size_t(i + c.seed) % c.scales.size();
    double& value = values[size_t(i)] = double(remainder(c, i)) * c.scales[scale];
    for (const Special& s : c.specials) {
      if ((i + c.seed) % s.period == 0) value = s.value;
    }
  }
  const Tensor x = tensor_of(values.data(), c.shape);
  return c.dtype == kFloat64 ? x : x.to(kFloat32).to(c.dtype);
}

std::string printed(const Case& c, Device device) {
  Tensor x = (is_floating_point(c.dtype) ? floats(c) : integers(c)).to(device);
  if (c.tape != "none") x.requires_grad_();
  if (c.tape == "view") x = x.view(x.shape());
  if (c.tape == "mul") x = x * 1;
  if (c.tape == "clone") x = x.clone();
  if (c.tape == "neg") x = -x;
  return to_string(x);
}

TEST(PrintExpected, RandomTensorsPrintAsInPyTorch) {
  const std::vector<Case> all = cases();
  EXPECT_GE(all.size(), 200u);
  for (const Case& c : all) {
    EXPECT_EQ(printed(c, "cpu"), c.on_cpu) << "print_expected.txt:" << c.line;
  }
}

TEST(PrintExpected, OnAGpuTheyNameTheDevice) {
  if (!cuda::is_available()) GTEST_SKIP() << "needs a GPU: " << cuda::unavailable_reason();
  for (const Case& c : cases()) {
    EXPECT_EQ(printed(c, "cuda:0"), c.on_cuda) << "print_expected.txt:" << c.line;
  }
}

// If the device is the only suffix, its position and the line breaks before it can be checked
// without a GPU.
TEST(PrintExpected, ADeviceIsLaidOutLikeAnySuffix) {
  int checked = 0;
  for (const Case& c : cases()) {
    const bool hides_dtype = c.dtype == kFloat32 || c.dtype == kInt64 || c.dtype == kBool;
    if (c.tape != "none" || !hides_dtype || c.shape.numel() == 0) continue;
    const Tensor x = is_floating_point(c.dtype) ? floats(c) : integers(c);
    EXPECT_EQ(format_tensor(x, "device='cuda:0'"), c.on_cuda) << "print_expected.txt:" << c.line;
    ++checked;
  }
  EXPECT_GE(checked, 50);
}

}  // namespace
}  // namespace taper::v0
