// Transforms of images compared with plain loops that draw the same random numbers.
#include "data/images/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "data/loader.h"
#include "data/transforms.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::all_devices;

constexpr int64_t B = 6, H = 5, W = 7;

Tensor images(int64_t channels = 3) {
  Generator draws(1);
  return rand({B, channels, H, W}, {}, &draws);
}
SampleRng draws_on(Device device) { return {3, 1, {4, 8, 1, 0, 100, 17}, device}; }
// Returns the same random numbers, drawn again.
std::vector<float> numbers(int64_t count, double low = 0, double high = 1) {
  return draws_on("cpu").uniform(count, low, high).to_floats();
}

// Returns a pixel of image b, or 0 outside of it.
struct At {
  explicit At(const Tensor& x) : values(x.cpu().to_floats()), shape(x.shape()) {}
  double operator()(int64_t b, int64_t c, int64_t i, int64_t j) const {
    if (i < 0 || j < 0 || i >= shape[2] || j >= shape[3]) return 0;
    return values[size_t(((b * shape[1] + c) * shape[2] + i) * shape[3] + j)];
  }
  std::vector<float> values;
  Shape shape;
};

// Expects that transform(x) has the value expected(b, c, i, j) at every pixel, on every device.
void expect_pixels(const auto& transform, const Tensor& x, const auto& expected, double error = 0) {
  for (const Device device : all_devices()) {
    SampleRng draws = draws_on(device);
    const Tensor y = transform(x.to(device), draws);
    EXPECT_EQ(y.device().type(), device.type());
    const At at(y);
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t c = 0; c < y.size(1); ++c) {
        for (int64_t i = 0; i < y.size(2); ++i) {
          for (int64_t j = 0; j < y.size(3); ++j) {
            ASSERT_NEAR(at(b, c, i, j), expected(b, c, i, j), error) << b << c << i << j;
          }
        }
      }
    }
  }
}

TEST(ImageTransforms, NormalizeByChannel) {
  const At at(images());
  const std::vector<double> mean = {0.1, 0.2, 0.3}, std = {0.5, 1, 2};
  expect_pixels(
      Normalize{mean, std}, images(),
      [&](int64_t b, int64_t c, int64_t i, int64_t j) {
        return (at(b, c, i, j) - mean[size_t(c)]) / std[size_t(c)];
      },
      1e-6);
  SampleRng draws = draws_on("cpu");
  EXPECT_THROW((Normalize{{0.1}, {1}}(images(), draws)), ValueError);
  EXPECT_THROW((Normalize{{0}, {0}}(images(1), draws)), ValueError);
  EXPECT_THROW((Normalize{{0}, {1}}(images(1)[0], draws)), ValueError);
}

TEST(ImageTransforms, CropsLieAnywhereInThePaddedImage) {
  const At at(images());
  const std::vector<float> u = numbers(2);
  std::vector<int64_t> tops;
  for (size_t b = 0; b < B; ++b) tops.push_back(int64_t(u[2 * b] * 5));
  EXPECT_GT(*std::ranges::max_element(tops), *std::ranges::min_element(tops));
  expect_pixels(RandomCrop{.padding = 2}, images(),
                [&](int64_t b, int64_t c, int64_t i, int64_t j) {
                  const int64_t left = int64_t(u[size_t(2 * b + 1)] * 5);
                  return at(b, c, tops[size_t(b)] + i - 2, left + j - 2);
                });
  expect_pixels(RandomCrop{.size = 3}, images(), [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    return at(b, c, int64_t(u[size_t(2 * b)] * 3) + i, int64_t(u[size_t(2 * b + 1)] * 5) + j);
  });
  SampleRng draws = draws_on("cpu");
  EXPECT_EQ(refusal_of<ValueError>([&] { (void)RandomCrop{.size = 6}(images(), draws); }),
            "Required crop size [6, 6] is larger than input image size [5, 7]");
}

TEST(ImageTransforms, FlipsComeWithTheirProbability) {
  const At at(images());
  const std::vector<float> u = numbers(1);
  for (const double p : {0.0, 0.4, 1.0}) {
    expect_pixels(RandomHorizontalFlip{p}, images(),
                  [&](int64_t b, int64_t c, int64_t i, int64_t j) {
                    return at(b, c, i, u[size_t(b)] < p ? W - 1 - j : j);
                  });
  }
}

TEST(ImageTransforms, AffineSamplesBetweenPixels) {
  const At at(images());
  const RandomAffine turn{.degrees = 40, .translate = {0.3, 0.2}, .scale = {0.7, 1.4}};
  const std::vector<float> u = numbers(4, -1, 1);
  expect_pixels(
      turn, images(),
      [&](int64_t b, int64_t c, int64_t i, int64_t j) {
        const float* n = &u[size_t(4 * b)];
        const double angle = n[0] * 40 * std::numbers::pi / 180, scale = 1.05 + n[3] * 0.35;
        const double x = double(j) - 3 - std::nearbyint(n[1] * 0.3 * W);
        const double y = double(i) - 2 - std::nearbyint(n[2] * 0.2 * H);
        const double from_x = (std::cos(angle) * x + std::sin(angle) * y) / scale + 3;
        const double from_y = (std::cos(angle) * y - std::sin(angle) * x) / scale + 2;
        const auto left = int64_t(std::floor(from_x)), top = int64_t(std::floor(from_y));
        const double fx = from_x - double(left), fy = from_y - double(top);
        return (1 - fy) * ((1 - fx) * at(b, c, top, left) + fx * at(b, c, top, left + 1)) +
               fy * ((1 - fx) * at(b, c, top + 1, left) + fx * at(b, c, top + 1, left + 1));
      },
      1e-4);
  expect_pixels(RandomAffine{}, images(), at, 1e-5);
}

TEST(ImageTransforms, ColoursMoveWithinTheirBounds) {
  const At at(images());
  const std::vector<float> u = numbers(3);
  const auto clamped = [](double x) { return std::clamp(x, 0.0, 1.0); };
  const auto grey = [](const auto& x, int64_t b, int64_t i, int64_t j) {
    return 0.2989 * x(b, 0, i, j) + 0.587 * x(b, 1, i, j) + 0.114 * x(b, 2, i, j);
  };
  const auto lit = [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    return clamped(at(b, c, i, j) * (0.4 + 1.2 * u[size_t(3 * b)]));
  };
  std::vector<double> means;
  for (int64_t b = 0; b < B; ++b) {
    double sum = 0;
    for (int64_t i = 0; i < H * W; ++i) sum += grey(lit, b, i / W, i % W);
    means.push_back(sum / double(H * W));
  }
  const auto contrasted = [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    const double m = means[size_t(b)];
    return clamped(m + (lit(b, c, i, j) - m) * (0.5 + u[size_t(3 * b + 1)]));
  };
  const auto saturated = [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    const double g = grey(contrasted, b, i, j);
    return clamped(g + (contrasted(b, c, i, j) - g) * (3 * u[size_t(3 * b + 2)]));
  };
  // With a saturation of 2 the factor could be negative, but it is limited to 0.
  expect_pixels(ColorJitter{0.6, 0.5, 2}, images(), saturated, 1e-5);
  expect_pixels(ColorJitter{}, images(), at);
  SampleRng draws = draws_on("cpu");
  EXPECT_THROW((void)ColorJitter{.contrast = 1}(images(2), draws), ValueError);
}

TEST(ImageTransforms, CutoutIsASquareOfZeros) {
  const At at(images());
  const std::vector<float> u = numbers(2);
  expect_pixels(Cutout{3}, images(), [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    const int64_t y = int64_t(u[size_t(2 * b)] * H), x = int64_t(u[size_t(2 * b + 1)] * W);
    return std::abs(i - y) <= 1 && std::abs(j - x) <= 1 ? 0 : at(b, c, i, j);
  });
}

TEST(ImageTransforms, MixupMixesInputsAndTargetsAlike) {
  const Tensor x = images(), y = tensor({0, 1, 2, 3, 1, 0});
  for (const Device device : all_devices()) {
    SampleRng draws = draws_on(device);
    const Batch b = Mixup{.num_classes = 4, .alpha = 1}({x.to(device), y.to(device)}, draws);
    EXPECT_EQ(b.targets.shape(), (Shape{B, 4}));
    const At was(x), is(b.inputs);
    const std::vector<float> p = b.targets.cpu().to_floats();
    for (int64_t k = 0; k < B; ++k) {
      // The weight of the sample itself, from the probability of its class if its partner has
      // another class.
      const int64_t own = y[k].item<int64_t>(), other = y[B - 1 - k].item<int64_t>();
      if (own == other) continue;
      const double part = p[size_t(4 * k + own)];
      EXPECT_NEAR(part + p[size_t(4 * k + other)], 1, 1e-6);
      EXPECT_NEAR(is(k, 2, 3, 1), part * was(k, 2, 3, 1) + (1 - part) * was(B - 1 - k, 2, 3, 1),
                  1e-5);
    }
    EXPECT_GT(cross_entropy(zeros({B, 4}).to(device), b.targets).item<float>(), 1);
  }
  SampleRng draws = draws_on("cpu");
  EXPECT_THROW((void)Mixup{}({x, y}, draws), ValueError);
}

// The mean of the distribution is 1/2 and its variance 1 / (4 (2 a + 1)).
TEST(ImageTransforms, MixupDrawsFromBeta) {
  std::vector<int64_t> samples(20000, 0);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = int64_t(i);
  const Tensor x = arange(20000).to(kFloat64).reshape({20000, 1});
  for (const double alpha : {0.2, 1.0, 4.0}) {
    SampleRng draws(7, 0, samples, "cpu");
    const Batch b = Mixup{.alpha = alpha}({(x < 10000).to(kFloat64), {}}, draws);
    const Tensor part = b.inputs.narrow(0, 0, 10000);  // samples of ones mixed with zeros
    EXPECT_NEAR(mean(part).item<double>(), 0.5, 0.01) << alpha;
    EXPECT_NEAR(var(part).item<double>(), 0.25 / (2 * alpha + 1), 0.005) << alpha;
    EXPECT_GE(amin(part).item<double>(), 0);
    EXPECT_LE(amax(part).item<double>(), 1);
  }
}

TEST(ImageTransforms, RandomRotationIsAnAffineMap) {
  SampleRng first = draws_on("cpu"), second = draws_on("cpu");
  EXPECT_EQ(RandomRotation{.degrees = 30}(images(), first).to_floats(),
            RandomAffine{.degrees = 30}(images(), second).to_floats());
}

// The part has the drawn area and aspect ratio, and lies within the image.
TEST(ImageTransforms, RandomResizedCropScalesAPart) {
  const At at(images());
  const RandomResizedCrop crop{.scale = {0.2, 0.9}, .ratio = {0.5, 2}};
  const std::vector<float> u = numbers(4);
  const auto clamped = [&](int64_t b, int64_t c, int64_t i, int64_t j) {
    return at(b, c, std::clamp<int64_t>(i, 0, H - 1), std::clamp<int64_t>(j, 0, W - 1));
  };
  expect_pixels(
      crop, images(),
      [&](int64_t b, int64_t c, int64_t i, int64_t j) {
        const float* draw = &u[size_t(4 * b)];
        const double area = (0.2 + 0.7 * double(draw[0])) * H * W;
        const double aspect = std::exp(std::log(0.5) + std::log(4) * double(draw[1]));
        const double height = std::clamp<double>(std::sqrt(area / aspect), 1, H),
                     width = std::clamp<double>(std::sqrt(area * aspect), 1, W);
        const double y = (H - height) * double(draw[2]) + (double(i) + 0.5) / H * height - 0.5,
                     x = (W - width) * double(draw[3]) + (double(j) + 0.5) / W * width - 0.5;
        const auto y0 = int64_t(std::floor(y)), x0 = int64_t(std::floor(x));
        const double dy = y - double(y0), dx = x - double(x0);
        return (1 - dy) * ((1 - dx) * clamped(b, c, y0, x0) + dx * clamped(b, c, y0, x0 + 1)) +
               dy * ((1 - dx) * clamped(b, c, y0 + 1, x0) + dx * clamped(b, c, y0 + 1, x0 + 1));
      },
      1e-4);
}

TEST(ImageTransforms, AutoDependsOnTheChannels) {
  for (const int64_t channels : {1, 3}) {
    SampleRng draws = draws_on("cpu"), again = draws_on("cpu");
    const Tensor x = images(channels), y = AutoTransform{}(x, draws);
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_NE(y.to_floats(), x.to_floats());
    EXPECT_EQ(y.to_floats(), AutoTransform{}(x, again).to_floats());
    EXPECT_GE(amin(y).item<float>(), 0);
    EXPECT_LE(amax(y).item<float>(), 1);
  }
}

TEST(ImageTransforms, NormalizedSamplesKeepTheirTargets) {
  const NormalizeOptions by{{0.1, 0.2, 0.3}, {0.5, 1, 2}};
  const auto plain = std::make_shared<TensorDataset>(Batch{images(), tensor({5, 4, 3, 2, 1, 0})});
  const DatasetPtr set = normalized_dataset(plain, by);
  const Batch b = set->get(tensor({2, 0}));
  SampleRng draws = draws_on("cpu");
  const Tensor wanted = Normalize{by.mean, by.std}(images(), draws);
  EXPECT_EQ(b.inputs[1].to_floats(), wanted[0].to_floats());
  EXPECT_EQ(b.targets.to_vector<int64_t>(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(set->size(), B);
  const std::vector<float> back = denormalize_channels(wanted, by).to_floats();
  for (size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], images().to_floats()[i], 1e-6);
  EXPECT_THROW((void)normalize_channels(images(1), by), ValueError);
}

TEST(ImageTransforms, AreComposedForALoader) {
  const auto set = std::make_shared<TensorDataset>(Batch{images(), tensor({0, 1, 2, 3, 4, 5})});
  const Transform all = compose(
      RandomCrop{.padding = 1}, [](const Tensor& x, SampleRng&) { return x * 2; },
      Mixup{.num_classes = 6});
  std::vector<std::vector<float>> wanted;
  for (const Device device : all_devices()) {
    for (const int64_t workers : {0, 3}) {
      DataLoader loader(
          set, {.batch_size = 3, .shuffle = true, .workers = workers, .transform = all}, device, 5);
      std::vector<std::vector<float>> seen;
      for (const Batch& b : loader.epoch(2)) {
        EXPECT_EQ(b.targets.shape(), (Shape{3, 6}));
        seen.push_back(b.inputs.cpu().to_floats());
      }
      if (wanted.empty()) wanted = seen;
      ASSERT_EQ(seen.size(), wanted.size());
      for (size_t k = 0; k < seen.size(); ++k) {
        for (size_t i = 0; i < seen[k].size(); ++i) EXPECT_NEAR(seen[k][i], wanted[k][i], 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace taper::v0::data
