// All code that reads tensors and is not an operator (operators: tests/op_table), for every layout
// of tensors: datasets, loaders, transforms, files, losses, metrics.
#include "tests/layouts.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/images/image_files.h"
#include "data/loader.h"
#include "data/metrics.h"
#include "data/split.h"
#include "data/transforms.h"
#include "framework/factory/factories.h"
#include "framework/io/archive.h"
#include "framework/io/dlpack.h"
#include "framework/io/npy.h"
#include "framework/io/pt.h"
#include "framework/io/safetensors.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::Layout;
using Tensors = std::vector<Tensor>;

struct Row {
  std::string name;
  std::function<Tensors()> inputs;           // contiguous, on the CPU
  std::function<Tensors(const Tensors&)> f;  // takes the inputs on any device
};

// Positive, distinct, and below 1 (floating point) or below 200.
Tensor numbers(const Shape& shape, DType dtype = kFloat32) {
  const Tensor x = (arange(shape.numel()).to(kFloat32) + 1) / double(shape.numel() + 1);
  return (is_floating_point(dtype) ? x : x * 200).reshape(shape).to(dtype);
}
Tensor classes(int64_t count, int64_t below) { return remainder(arange(count), below); }

Tensors tensors_of(const Batch& b) {
  Tensors out = {b.inputs};
  if (b.targets.defined()) out.push_back(b.targets);
  out.insert(out.end(), b.others.begin(), b.others.end());
  return out;
}

Tensors all_batches(DataLoader& loader) {
  Tensors out;
  loader.start(0);
  while (const std::optional<Batch> batch = loader.next()) {
    for (const Tensor& t : tensors_of(*batch)) out.push_back(t);
  }
  return out;
}

Tensor rows_on(const Tensor& x, std::vector<int64_t> rows) {
  // An empty set has no rows to select.
  if (x.size(0) == 0) rows.clear();
  return tensor_of(rows.data(), {std::ssize(rows)}).to(x.device());
}

Tensors images_and_classes() { return {numbers({5, 3, 4, 2}), classes(5, 3)}; }
Tensors text() { return {arange(60)}; }

std::vector<Row> sets() {
  std::vector<Row> out;
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kUInt8, kBool}) {
    out.push_back({concat_to_string("TensorDataset of ", dtype),
                   [=] {
                     return Tensors{numbers({5, 3, 4, 2}, dtype)};
                   },
                   [](const Tensors& x) {
                     return tensors_of(TensorDataset(Batch{x[0]}).get(rows_on(x[0], {4, 0, 4})));
                   }});
  }
  out.push_back({"TensorDataset with others", images_and_classes, [](const Tensors& x) {
                   const TensorDataset set(Batch{x[0], x[1], {x[0] * 2}});
                   return tensors_of(set.get(rows_on(x[0], {1, 3})));
                 }});
  out.push_back({"rows of a TensorDataset",
                 [] {
                   return Tensors{tensor({4, 0, 2, 1})};
                 },
                 [](const Tensors& x) {
                   const TensorDataset set(Batch{numbers({5, 3}).to(x[0].device())});
                   return tensors_of(set.get(x[0]));
                 }});
  out.push_back({"WindowDataset", text, [](const Tensors& x) {
                   return tensors_of(WindowDataset(x[0], 4).get(rows_on(x[0], {0, 55, 7})));
                 }});
  out.push_back({"WindowDataset of a part", text, [](const Tensors& x) {
                   const int64_t n = x[0].size(0) / 3;
                   const WindowDataset set(x[0].narrow(0, 2 * n, n), 4);
                   return tensors_of(set.get(rows_on(x[0], {0, 3})));
                 }});
  out.push_back({"WindowDataset in turn", text, [](const Tensors& x) {
                   DataLoader loader(WindowDataset(x[0], 4), {.batch_size = 2});
                   return all_batches(loader);
                 }});
  out.push_back({"Subset", images_and_classes, [](const Tensors& x) {
                   const auto set = std::make_shared<TensorDataset>(Batch{x[0], x[1]});
                   const Subset part(set, rows_on(x[0], {3, 1, 0}));
                   return tensors_of(part.get(rows_on(x[0], {2, 0})));
                 }});
  out.push_back({"parts of random_split", images_and_classes, [](const Tensors& x) {
                   const auto set = std::make_shared<TensorDataset>(Batch{x[0], x[1]});
                   const auto parts = random_split(set, {0.6, 0.4}, 1, x[1]);
                   return tensors_of(parts[1]->get(rows_on(x[0], {1, 0})));
                 }});
  out.push_back({"ConcatDataset", images_and_classes, [](const Tensors& x) {
                   const auto set = std::make_shared<TensorDataset>(Batch{x[0].cpu(), x[1].cpu()});
                   const ConcatDataset both({set, set});
                   return tensors_of(both.get(rows_on(x[0].cpu(), {7, 2, 9})));
                 }});
  out.push_back({"a set that moves to the CPU", images_and_classes, [](const Tensors& x) {
                   const DatasetPtr set = TensorDataset(Batch{x[0], x[1]}).to(Device());
                   return tensors_of(set->get(rows_on(x[0].cpu(), {2, 1})));
                 }});
  return out;
}

std::vector<Row> loaders() {
  std::vector<Row> out;
  for (const int64_t workers : {0, 2}) {
    out.push_back({concat_to_string("DataLoader with ", workers, " workers"), images_and_classes,
                   [=](const Tensors& x) {
                     DataLoader loader(TensorDataset(Batch{x[0].cpu(), x[1].cpu()}),
                                       {.batch_size = 2, .shuffle = true, .workers = workers});
                     return all_batches(loader);
                   }});
    out.push_back({concat_to_string("samples of a function with ", workers, " workers"),
                   images_and_classes, [=](const Tensors& x) {
                     const FunctionDataset set(x[0].size(0), [&](int64_t i) {
                       return Batch{x[0].select(0, i), x[1].select(0, i)};
                     });
                     DataLoader loader(set, {.batch_size = 2, .workers = workers});
                     return all_batches(loader);
                   }});
  }
  const auto add = [&](const std::string& name, const Transform& step) {
    out.push_back({name, images_and_classes, [=](const Tensors& x) {
                     std::vector<int64_t> samples(size_t(x[0].size(0)));
                     for (size_t i = 0; i < samples.size(); ++i) samples[i] = int64_t(i);
                     SampleRng draws(1, 0, samples, x[0].device());
                     return tensors_of(step(Batch{x[0], x[1]}, draws));
                   }});
  };
  add("Normalize", compose(Normalize{{0.1, 0.2, 0.3}, {1, 2, 3}}));
  add("RandomCrop", compose(RandomCrop{.padding = 1}));
  add("RandomHorizontalFlip", compose(RandomHorizontalFlip{}));
  add("RandomAffine", compose(RandomAffine{.degrees = 20, .translate = {0.2, 0.2}}));
  add("ColorJitter", compose(ColorJitter{0.2, 0.2, 0.2}));
  add("Cutout", compose(Cutout{.size = 2}));
  add("Mixup", compose(Mixup{.num_classes = 3}));
  return out;
}

std::vector<Row> files(const std::string& directory) {
  const std::string path = directory + "/file";
  std::vector<Row> out;
  for (const DType dtype : {kFloat32, kFloat16, kInt64, kUInt8, kBool}) {
    const auto inputs = [=] { return Tensors{numbers({5, 3, 4, 2}, dtype), numbers({3}, dtype)}; };
    out.push_back({concat_to_string("save_npy of ", dtype), inputs, [=](const Tensors& x) {
                     save_npy(path, x[0].cpu());
                     return Tensors{load_npy(path)};
                   }});
    out.push_back({concat_to_string("save_safetensors of ", dtype), inputs, [=](const Tensors& x) {
                     save_safetensors(path, {{"a", x[0]}, {"b", x[1]}});
                     Tensors back;
                     for (const NamedTensor& t : load_safetensors(path).tensors) {
                       back.push_back(t.tensor.clone());
                     }
                     return back;
                   }});
    if (has_zip()) {
      out.push_back({concat_to_string("save_pt of ", dtype), inputs, [=](const Tensors& x) {
                       save_pt(path, {{"a", x[0]}, {"b", x[1]}});
                       Tensors back;
                       for (const NamedTensor& t : load_pt(path)) back.push_back(t.tensor);
                       return back;
                     }});
    }
    out.push_back({concat_to_string("to_dlpack of ", dtype), inputs, [](const Tensors& x) {
                     return Tensors{from_dlpack(to_dlpack(x[0])), from_dlpack(to_dlpack(x[1]))};
                   }});
  }
#ifdef TAPER_WITH_IMAGES
  for (const int64_t channels : {1, 2, 3, 4}) {
    out.push_back({concat_to_string("write_png of ", channels, " channels"),
                   [=] {
                     return Tensors{numbers({channels, 5, 7}, kUInt8)};
                   },
                   [=](const Tensors& x) {
                     write_png(x[0], path);
                     return Tensors{read_image(path)};
                   }});
  }
#endif
  out.push_back({"resize",
                 [] {
                   return Tensors{numbers({2, 3, 5, 4})};
                 },
                 [](const Tensors& x) { return Tensors{resize(x[0], 3, 6)}; }});
  return out;
}

std::vector<Row> losses() {
  std::vector<Row> out;
  using Loss = std::function<Tensor(const Tensor&, const Tensor&, Reduction)>;
  const auto add = [&](const std::string& name, const std::function<Tensors()>& inputs,
                       const Loss& loss) {
    for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
      out.push_back({name, inputs, [=](const Tensors& x) {
                       const Tensor leaf = x[0].detach().requires_grad_();
                       const Tensor value = loss(leaf, x[1], reduction);
                       value.sum().backward();
                       return Tensors{value.detach(), leaf.grad()};
                     }});
    }
  };
  const auto of_pixels = [] { return Tensors{numbers({5, 3, 4}), classes(20, 3).reshape({5, 4})}; };
  const auto of_values = [] {
    return Tensors{numbers({5, 3, 4}), 1 - numbers({5, 3, 4}).square()};
  };
  add("cross_entropy", of_pixels, [](const Tensor& x, const Tensor& y, Reduction r) {
    return cross_entropy(x, y, {.reduction = r, .label_smoothing = 0.1});
  });
  add("cross_entropy of probabilities", of_values,
      [](const Tensor& x, const Tensor& y, Reduction r) {
        return cross_entropy(x, y, {.reduction = r});
      });
  add("nll_loss", of_pixels, [](const Tensor& x, const Tensor& y, Reduction r) {
    return nll_loss(x, y, {.reduction = r});
  });
  add("mse_loss", of_values, [](auto& x, auto& y, Reduction r) { return mse_loss(x, y, r); });
  add("l1_loss", of_values, [](auto& x, auto& y, Reduction r) { return l1_loss(x, y, r); });
  add("huber_loss", of_values, [](auto& x, auto& y, Reduction r) { return huber_loss(x, y, r); });
  add("smooth_l1_loss", of_values,
      [](auto& x, auto& y, Reduction r) { return smooth_l1_loss(x, y, r); });
  add("binary_cross_entropy", of_values,
      [](auto& x, auto& y, Reduction r) { return binary_cross_entropy(x, y, {.reduction = r}); });
  add("binary_cross_entropy_with_logits", of_values, [](auto& x, auto& y, Reduction r) {
    return binary_cross_entropy_with_logits(x, y, {.reduction = r});
  });
  add("kl_div", of_values, [](auto& x, auto& y, Reduction r) { return kl_div(x, y, r); });
  return out;
}

std::vector<Row> metrics() {
  std::vector<Row> out;
  const auto of_classes = [] {
    return Tensors{sin(numbers({8, 3}) * 40), classes(8, 3), cos(numbers({8, 3}) * 30)};
  };
  const auto of_two = [] { return Tensors{sin(numbers({8, 2}) * 40), classes(8, 2)}; };
  const auto of_values = [] { return Tensors{sin(numbers({8, 1}) * 40), numbers({8})}; };
  const auto of_tokens = [] {
    return Tensors{sin(numbers({4, 5, 3}) * 40), classes(20, 3).reshape({4, 5})};
  };
  const auto add = [&](const std::string& name, const std::function<Tensors()>& inputs,
                       const Metric& metric) {
    out.push_back({name, inputs, [=](const Tensors& x) {
                     Meter meter(metric);
                     meter.update(x[0], x[1]);
                     meter.update(x[0] * 0.5, x[1]);
                     Tensors result;
                     if (metric.sums) result.push_back(meter.sums());
                     if (metric.value) result.push_back(tensor(meter.value()));
                     return result;
                   }});
  };
  add("accuracy", of_classes, accuracy());
  add("accuracy of tokens", of_tokens, accuracy());
  add("topk_accuracy", of_classes, topk_accuracy(2));
  add("confusion_matrix", of_classes, confusion_matrix(3));
  add("f1_score", of_classes, f1_score(3));
  add("auc", of_two, auc());
  add("average_precision", of_classes, average_precision(3));
  add("balanced_accuracy", of_classes, balanced_accuracy(3));
  add("log_loss", of_classes, log_loss());
  add("calibration_error", of_classes, calibration_error(4));
  add("mean_absolute_percentage_error", of_values, mean_absolute_percentage_error(3, 2));
  add("perplexity", of_tokens, perplexity());
  add("mean_absolute_error", of_values, mean_absolute_error(2));
  add("root_mean_squared_error", of_values, root_mean_squared_error(2));
  add("r2_score", of_values, r2_score());
  return out;
}

// The result of a row: tensors, or the message of an error.
struct Outcome {
  Tensors tensors;
  std::string error{};
};
Outcome outcome_of(const Row& row, const Tensors& x) {
  try {
    Outcome out;
    for (const Tensor& t : row.f(x)) out.tensors.push_back(t.cpu().clone());
    return out;
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

class Layouts : public DataFiles {};

// Expects the result for a contiguous copy on the CPU.
void expect_no_difference(const Row& row, const Layout& layout, Device device) {
  SCOPED_TRACE(concat_to_string(row.name, ", ", layout.name, " on ", to_string(device)));
  Tensors laid_out, dense;
  for (const Tensor& t : row.inputs()) {
    laid_out.push_back(layout.of(t.to(device)));
    dense.push_back(laid_out.back().cpu().clone().contiguous());
  }
  const Outcome want = outcome_of(row, dense), got = outcome_of(row, laid_out);
  const bool has_rows = dense[0].size(0) > 0;
  EXPECT_TRUE(want.error.empty() || !has_rows) << want.error;
  EXPECT_EQ(got.error, want.error);
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (size_t i = 0; i < got.tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].dtype(), want.tensors[i].dtype());
    EXPECT_TRUE(test::close(got.tensors[i], want.tensors[i], 1e-5)) << "result " << i;
  }
}

TEST_F(Layouts, DoNotChangeWhatIsRead) {
  std::vector<Row> rows;
  for (std::vector<Row> part : {sets(), loaders(), files(directory_), losses(), metrics()}) {
    std::ranges::move(part, std::back_inserter(rows));
  }
  std::vector<Layout> layouts(test::kLayouts.begin(), test::kLayouts.end());
  layouts.push_back(test::kEmptyLayout);
  for (const Row& row : rows) {
    for (const Layout& layout : layouts) {
      for (const Device device : test::all_devices()) expect_no_difference(row, layout, device);
    }
  }
}

// Windows are numbered within the tensor, not within its storage.
TEST_F(Layouts, WindowsOfASplitAreThoseOfTheirPart) {
  for (const Device device : test::all_devices()) {
    const Tensor text = arange(100).to(device);
    const WindowDataset train(text.narrow(0, 0, 90), 4), held_out(text.narrow(0, 90, 10), 4);
    const Tensor first = tensor({0}).to(device);
    EXPECT_EQ(train.get(first).inputs.cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(held_out.get(first).inputs.cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{90, 91, 92, 93}));
    EXPECT_EQ(held_out.get(first).targets.cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{91, 92, 93, 94}));
    EXPECT_EQ(held_out.tokens().storage(), text.storage());  // no copy
  }
}

TEST_F(Layouts, ATextThatIsNoLineOfTokensIsRefused) {
  EXPECT_TRUE(test::refuses<ValueError>(
      [] {
        return WindowDataset(zeros({2, 3}), 2);
      },
      "WindowDataset: expected tokens [N], got the shape [2, 3]"));
  EXPECT_TRUE(test::refuses<ValueError>([] { return WindowDataset(arange(3), 0); },
                                        "WindowDataset: expected a block of at least 1 token"));
}

}  // namespace
}  // namespace taper::v0::data
