// Compares Taper with PyTorch's operator database. opinfo.py draws the cases and stores PyTorch's
// results. The test compares shapes, dtypes, values, first and second gradients, and which results
// are views of arguments (and their strides). It also checks that inputs are unchanged and that
// invalid calls are refused. opinfo.safetensors is run on every device. TAPER_OPINFO names another
// file, for which a report in lines of JSON is written.
#include "tests/interop/opinfo.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/io/safetensors.h"
#include "framework/kernels/linalg/factorizations.h"
#include "tests/testing.h"

namespace taper::v0::test {

using Json = nlohmann::json;

void Args::refuse(const char* name) const {
  throw Inexpressible{concat_to_string(name, "=", at(name).dump().substr(0, 40))};
}
Tensor Args::tensor_of(const Json& value, const char* name) const {
  if (!value.is_object() || !value.contains("tensor_index")) refuse(name);
  return tensors_[value["tensor_index"].get<size_t>()];
}
bool Args::is_number(const char* name) const {
  const Json& v = at(name);
  return v.is_number() || v.is_boolean() || (v.is_object() && v.contains("number"));
}
Tensor Args::t(const char* name) const { return none(name) ? Tensor() : tensor_of(at(name), name); }
Tensors Args::list(const char* name) const {
  if (!is_list(name)) refuse(name);
  Tensors out;
  for (const Json& part : at(name)) out.push_back(tensor_of(part, name));
  return out;
}
int64_t Args::i(const char* name) const {
  if (!at(name).is_number_integer()) refuse(name);
  return at(name).get<int64_t>();
}
double Args::f(const char* name) const { return number(name).to_double(); }
bool Args::b(const char* name) const {
  if (at(name).is_number_integer()) return i(name) != 0;
  if (!at(name).is_boolean()) refuse(name);
  return at(name).get<bool>();
}
std::string Args::text(const char* name) const {
  if (!at(name).is_string()) refuse(name);
  return at(name).get<std::string>();
}
Scalar Args::number(const char* name) const {
  const Json& v = at(name);
  if (!is_number(name)) refuse(name);
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number_integer()) return v.get<int64_t>();
  return v.is_object() ? std::stod(v["number"].get<std::string>()) : v.get<double>();
}
std::optional<Scalar> Args::maybe_number(const char* name) const {
  return none(name) ? std::nullopt : std::optional(number(name));
}
std::optional<int64_t> Args::maybe_i(const char* name) const {
  return none(name) ? std::nullopt : std::optional(i(name));
}
std::optional<double> Args::maybe_f(const char* name) const {
  return none(name) ? std::nullopt : std::optional(f(name));
}
std::optional<DType> Args::dtype(const char* name) const {
  if (none(name)) return {};
  return parse_dtype(at(name).at("dtype").get<std::string>());
}
std::vector<int64_t> Args::ints(const char* name) const {
  if (!is_list(name)) refuse(name);
  for (const Json& part : at(name)) {
    if (!part.is_number_integer()) refuse(name);
  }
  return at(name).get<std::vector<int64_t>>();
}
Shape Args::dims(const char* name) const {
  if (none(name)) return {};
  if (!is_list(name)) return {i(name)};
  const std::vector<int64_t> sizes = ints(name);
  if (sizes.size() > kMaxDims) refuse(name);
  return Shape(sizes.begin(), sizes.end());
}
std::vector<std::optional<int64_t>> Args::maybe_ints(const char* name) const {
  std::vector<std::optional<int64_t>> out;
  for (const nlohmann::json& n : at(name)) {
    if (!n.is_null() && !n.is_number_integer()) refuse(name);
    out.push_back(n.is_null() ? std::nullopt : std::optional(n.get<int64_t>()));
  }
  return out;
}
Pair Args::pair(const char* name) const {
  if (!is_list(name)) return i(name);
  const std::vector<int64_t> sizes = ints(name);
  if (sizes.size() == 1) return sizes[0];
  if (sizes.size() != 2) refuse(name);
  return {sizes[0], sizes[1]};
}
Triple Args::triple(const char* name) const {
  if (!is_list(name)) return i(name);
  const std::vector<int64_t> sizes = ints(name);
  if (sizes.size() == 1) return sizes[0];
  if (sizes.size() != 3) refuse(name);
  return {sizes[0], sizes[1], sizes[2]};
}
int64_t Args::one(const char* name) const {
  if (!is_list(name)) return i(name);
  if (ints(name).size() != 1) refuse(name);
  return ints(name)[0];
}
TensorIndex Args::index_of(const Json& value, const char* name) const {
  const auto maybe = [](const Json& v) -> std::optional<int64_t> {
    if (v.is_null()) return {};
    return v.get<int64_t>();
  };
  if (value.is_null()) return None;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_object() && value.contains("ellipsis")) return Ellipsis;
  if (!value.is_object() || !value.contains("slice")) return tensor_of(value, name);
  const Json& s = value["slice"];
  return Slice(maybe(s[0]), maybe(s[1]), maybe(s[2]));
}
std::vector<TensorIndex> Args::indices(const char* name) const {
  if (!is_list(name)) return {index_of(at(name), name)};
  std::vector<TensorIndex> all;
  for (const Json& part : at(name)) all.push_back(index_of(part, name));
  return all;
}
Reduction Args::reduction() const {
  const std::string word = text("reduction");
  const std::pair<const char*, Reduction> known[] = {{"none", Reduction::kNone},
                                                     {"mean", Reduction::kMean},
                                                     {"sum", Reduction::kSum},
                                                     {"batchmean", Reduction::kBatchmean}};
  for (const auto& [name, reduction] : known) {
    if (word == name) return reduction;
  }
  refuse("reduction");
}

namespace {

struct Cases {
  Json list;
  Tensor data;

  explicit Cases(const std::string& path) {
    SafeTensors file = load_safetensors(path);
    for (const NamedTensor& t : file.tensors) {
      if (t.name == "data") data = t.tensor;
      if (t.name != "cases") continue;
      const char* text = static_cast<const char*>(t.tensor.data_ptr());
      list = Json::parse(text, text + t.tensor.numel());
    }
  }
  // Returns a tensor of the elements at an offset.
  Tensor read(const Json& at, DType dtype, const Shape& shape) const {
    const char* from = static_cast<const char*>(data.data_ptr()) + at.get<int64_t>();
    return tensor_from_bytes(from, dtype, shape, {});
  }
};

Shape shape_of(const Json& sizes) {
  const auto list = sizes.get<std::vector<int64_t>>();
  return Shape(list.begin(), list.end());
}

// --- comparison: all tolerances are defined here ---

// The relative tolerance: |got - want| <= tolerance * (1 + |want|) plus a few epsilons of the
// largest value.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case kFloat64: return 1e-10;
    case kFloat32: return 1e-5;
    case kFloat16: return 2e-3;
    default: return 1.6e-2;
  }
}
double epsilon_of(DType dtype) {
  switch (dtype) {
    case kFloat64: return 0x1p-52;
    case kFloat32: return 0x1p-23;
    case kFloat16: return 0x1p-10;
    default: return 0x1p-7;
  }
}

// Returns a description of the difference, or "".
std::string difference(const Tensor& got, const Tensor& want, double slack, double factor = 1) {
  if (got.dtype() != want.dtype())
    return concat_to_string("dtype ", got.dtype(), ", not ", want.dtype());
  if (got.shape() != want.shape())
    return concat_to_string("shape ", got.shape(), ", not ", want.shape());
  if (!want.is_floating_point()) {
    const auto a = got.to_vector<int64_t>(), b = want.to_vector<int64_t>();
    const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin());
    return at == a.end()
               ? ""
               : concat_to_string("value ", *at, ", not ", *other, " at ", at - a.begin());
  }
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  double largest = 0;
  for (const double v : b) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  const double relative = factor * tolerance_of(want.dtype());
  const double absolute = 2 * slack + 16 * factor * epsilon_of(want.dtype()) * largest;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::abs(a[i] - b[i]) <= relative * (1 + std::abs(b[i])) + absolute &&
        std::isfinite(b[i])) {
      continue;
    }
    return concat_to_string("value ", a[i], ", not ", b[i], " at ", i);
  }
  return "";
}

// Returns whether two elements of x may share a memory location.
bool overlaps_itself(const Tensor& x) {
  for (int d = 0; d < x.dim(); ++d) {
    if (x.numel() > 0 && x.shape()[d] > 1 && x.strides()[d] == 0) return true;
  }
  return false;
}

bool same_strides(const Tensor& x, const Shape& strides) {
  for (int d = 0; d < x.dim(); ++d) {
    if (x.shape()[d] > 1 && x.strides()[d] != strides[d]) return false;
  }
  return true;
}

// --- one case ---

Tensor dy_of(const Tensor& y) {
  std::vector<double> values(size_t(y.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = (double(i * 7 % 11) - 5) / 4;
  return tensor_of(values.data(), {y.numel()}).to(y.device(), y.dtype()).reshape(y.shape());
}

class CaseRun {
 public:
  CaseRun(const Cases& cases, const Json& form, Device device)
      : cases_(cases), case_(form), args_form_(form.at("args")) {
    for (Json& value : args_form_) make_tensors(value, device);
    if (form.value("cloned", false)) {
      Tensor& first = tensors_[args_form_.at("input").at("tensor_index").get<size_t>()];
      first = first.clone();
    }
  }

  // Appends to `wrong` the differences from PyTorch.
  void check(const OpInfoFunction& f, Device device, std::vector<std::string>& wrong) {
    Args args(args_form_, tensors_);
    args.device = device;
    const Tensors outputs = f(args);
    const Json& wanted = case_.at("outputs");
    if (outputs.size() != wanted.size()) {
      wrong.push_back(concat_to_string(outputs.size(), " outputs, not ", wanted.size()));
      return;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::string text = check_output(outputs[i], wanted[i]);
      if (!text.empty()) wrong.push_back(concat_to_string("output ", i, ": ", text));
    }
    if (case_.at("op").get<std::string>().ends_with('_') && !outputs[0].is_same(args.t("input"))) {
      wrong.push_back("the result is not the tensor itself");
    }
    for (size_t i = 0; i < storages_.size(); ++i) check_storage(i, wrong);
    if (wrong.empty() && case_.contains("first") && !case_.contains("random")) {
      check_gradients(outputs, wrong);
    }
  }

 private:
  // Creates each tensor in `value` and replaces it by an index into tensors_.
  void make_tensors(Json& value, Device device) {
    if (value.is_array()) {
      for (Json& part : value) make_tensors(part, device);
    }
    if (!value.is_object() || !value.contains("tensor")) return;
    const size_t at = value["tensor"].get<size_t>();
    const DType dtype = parse_dtype(value["dtype"].get<std::string>());
    const Shape shape = shape_of(value["shape"]);
    if (storages_.size() <= at) storages_.resize(at + 1);
    if (!storages_[at].defined()) {
      const int64_t bytes = case_.at("bytes")[at].get<int64_t>();
      storages_[at] =
          cases_.read(case_.at("storages")[at], dtype, {bytes / int64_t(size_of(dtype))})
              .to(device, {.copy = true});
    }
    const Tensor x =
        view_as(storages_[at], shape,
                value.contains("strides") ? shape_of(value["strides"]) : contiguous_strides(shape),
                value.value("offset", int64_t(0)));
    if (value.contains("grad")) {
      const size_t leaf = value["grad"].get<size_t>();
      if (leaves_.size() <= leaf) leaves_.resize(leaf + 1);
      leaves_[leaf] = x.requires_grad_();
    }
    value["tensor_index"] = tensors_.size();
    tensors_.push_back(x);
  }

  Tensor wanted_of(const Json& form) const {
    return cases_.read(form["at"], parse_dtype(form["dtype"].get<std::string>()),
                       shape_of(form["shape"]));
  }

  std::string check_output(const Tensor& y, const Json& form) const {
    const Tensor want = wanted_of(form);
    if (case_.contains("random")) {
      if (y.dtype() != want.dtype())
        return concat_to_string("dtype ", y.dtype(), ", not ", want.dtype());
      if (y.shape() != want.shape())
        return concat_to_string("shape ", y.shape(), ", not ", want.shape());
    } else {
      std::string text = difference(y.detach().cpu(), want, form.value("slack", 0.0));
      if (!text.empty()) return text;
    }
    if (y.numel() == 0 || case_.value("cloned", false)) return "";
    int shares = -1;
    for (size_t i = 0; i < storages_.size(); ++i) {
      if (storages_[i].defined() && y.storage() == storages_[i].storage()) shares = int(i);
    }
    const int alias = form.value("alias", -1);
    if (shares != alias) {
      return alias < 0 ? "is a view of an argument" : "is not a view of the argument";
    }
    if (alias < 0) return overlaps_itself(y) ? "its elements share memory" : "";
    if (y.storage_offset() != form["offset"].get<int64_t>()) return "another offset";
    const Shape strides = shape_of(form["strides"]);
    return same_strides(y, strides) ? ""
                                    : concat_to_string("strides ", y.strides(), ", not ", strides);
  }

  // Expects that an argument is unchanged, or changed as by PyTorch.
  void check_storage(size_t i, std::vector<std::string>& wrong) const {
    if (!storages_[i].defined() || case_.contains("random")) return;
    const std::string key = std::to_string(i);
    const bool changes = case_.contains("after") && case_["after"].contains(key);
    const Tensor want = cases_.read(changes ? case_["after"][key] : case_["storages"][i],
                                    storages_[i].dtype(), storages_[i].shape());
    const std::string text = difference(storages_[i].cpu(), want, 0);
    if (!text.empty()) wrong.push_back(concat_to_string("argument ", i, " afterwards: ", text));
  }

  void check_gradients(const Tensors& outputs, std::vector<std::string>& wrong) const {
    const auto recorded = [](const Tensors& all) {
      Tensors out;
      for (const Tensor& t : all) {
        if (t.defined() && t.requires_grad()) out.push_back(t);
      }
      return out;
    };
    const auto pass = [&](const Tensors& ys, bool create_graph) {
      Tensors dys;
      for (const Tensor& y : ys) dys.push_back(dy_of(y));
      if (ys.empty()) return Tensors(leaves_.size());
      return grad(ys, leaves_, dys,
                  {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
    };
    const bool twice = case_.contains("second");
    const Tensors first = pass(recorded(outputs), twice);
    compare(first, "first", 4, wrong);
    if (!twice || !wrong.empty()) return;
    compare(pass(recorded(first), false), "second", 16, wrong);
  }

  void compare(const Tensors& got, const char* what, double factor,
               std::vector<std::string>& wrong) const {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Json& form = case_.at(what)[i];
      // A missing gradient is equivalent to zeros.
      const Tensor mine = got[i].defined() ? got[i].detach().cpu() : zeros_like(leaves_[i]).cpu();
      const Tensor want = form.is_null() ? zeros_like(mine) : wanted_of(form);
      const double slack = form.is_null() ? 0 : form.value("slack", 0.0);
      const std::string text = difference(mine, want, slack, factor);
      if (!text.empty()) wrong.push_back(concat_to_string(what, " gradient ", i, ": ", text));
    }
  }

  const Cases& cases_;
  const Json& case_;
  Json args_form_;
  Tensors storages_, tensors_, leaves_;
};

// Returns the text up to the first full stop, parenthesis or line end.
std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min({text.find('\n'), text.find(". "), text.find(" ("), text.size()}));
}

// Returns the lines of a report about one case, none if everything agrees.
std::vector<Json> run_case(const Cases& cases, size_t number, Device device) {
  const Json& form = cases.list[number];
  const std::string op = form.at("op").get<std::string>();
  if (op.starts_with("linalg_") && *kernels::missing_lapack()) return {};
  const auto line = [&](const char* result, const std::string& what) {
    return Json{{"case", number}, {"result", result}, {"what", what}};
  };
  std::vector<Json> lines;
  for (const std::string& name : {op, "Tensor." + op}) {
    const auto found = opinfo_functions().find(name);
    if (found == opinfo_functions().end()) continue;
    const std::string as = name == op ? "" : "as a method or operator: ";
    std::vector<std::string> wrong;
    try {
      CaseRun run(cases, form, device);
      if (form.contains("error")) {
        try {
          std::vector<std::string> ignored;
          Json without = form;
          without["outputs"] = Json::array();
          CaseRun(cases, without, device).check(found->second, device, ignored);
          // An error of a kernel is thrown by the next call that synchronizes.
          if (device.is_cuda()) cuda::synchronize(device.index());
          lines.push_back(line("failed", concat_to_string(as, "takes what PyTorch refuses: ",
                                                          form["error"][1].get<std::string>())));
        } catch (const Error& error) {
          Json refused = line("refused", error.what());
          const std::string mine = first_sentence(error.what());
          refused["same"] = form["error"][1].get<std::string>().find(mine) != std::string::npos;
          lines.push_back(refused);
        }
        continue;
      }
      run.check(found->second, device, wrong);
    } catch (const Inexpressible& inexpressible) {
      if (name == op) lines.push_back(line("inexpressible", inexpressible.what));
      continue;
    } catch (const Error& error) {
      wrong.push_back(concat_to_string("refuses: ", error.what()));
    } catch (const std::exception& error) {
      wrong.push_back(concat_to_string("throws another type of exception: ", error.what()));
    }
    for (const std::string& text : wrong) lines.push_back(line("failed", as + text));
  }
  return lines;
}

// As in PyTorch, the GPU has no integer matrix products.
bool is_missing_on_gpu(const std::string& what) {
  return what.find("not implemented for") != std::string::npos && what.ends_with("on cuda");
}

TEST(OpInfo, ComputesWhatPyTorchComputes) {
  const Cases cases(TAPER_INTEROP_DIR "/opinfo.safetensors");
  for (const Device device : all_devices()) {
    for (size_t i = 0; i < cases.list.size(); ++i) {
      for (const Json& line : run_case(cases, i, device)) {
        const std::string result = line["result"].get<std::string>();
        const std::string what = line["what"].get<std::string>();
        EXPECT_TRUE(result == "refused" || is_missing_on_gpu(what))
            << to_string(device) << ", case " << i << ": " << what << "\n  "
            << cases.list[i].dump().substr(0, 400);
      }
    }
  }
}

TEST(OpInfo, ReadsAFileOfCases) {
  const char* path = std::getenv("TAPER_OPINFO");
  if (!path) GTEST_SKIP() << "needs a file of cases in TAPER_OPINFO; opinfo.py writes one";
  const char* from = std::getenv("TAPER_OPINFO_FROM");
  std::ofstream report(std::getenv("TAPER_OPINFO_REPORT"), std::ios::app);
  const Cases cases(path);
  for (size_t i = from ? std::stoul(from) : 0; i < cases.list.size(); ++i) {
    report << Json{{"begin", i}}.dump() << std::endl;
    for (const Json& line : run_case(cases, i, Device())) {
      report << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }
  }
}

}  // namespace
}  // namespace taper::v0::test
