#include "data/images/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/base/philox.h"
#include "framework/factory/factories.h"
#include "framework/host/parallel.h"

namespace taper::v0::data {
namespace {

constexpr int kSize = 28;
constexpr int kDigitPixels = kSize * kSize;
constexpr int kDigits = 10;

// The strengths of the distortions. Together they make the task hard enough: with 12,000 training
// images, a linear model stays below 89 %, and a small MLP (784-256-256-10, ten epochs) reaches
// 98.6 to 99.3 %.
constexpr double kPixelsPerUnit = 0.18;  // a digit is 100 units high
constexpr double kMaxTurn = 0.26;        // radians, about
constexpr double kMaxShear = 0.30;
constexpr double kMinScale = 0.80, kMaxScale = 1.15;
constexpr double kMaxShift = 2.0;                     // pixels
constexpr double kMaxBend = 14.0;                     // maximum shift of a lattice point, in units
constexpr double kMinRadius = 0.7, kMaxRadius = 1.7;  // half the stroke width, pixels
constexpr double kMinBlur = 0.8, kMaxBlur = 2.0;      // width of the stroke's soft edge, pixels
constexpr double kMinInk = 150.0, kMaxInk = 255.0;    // gray level of a full stroke
constexpr double kMaxNoise = 40.0;                    // gray levels in either direction

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;
using Skeleton = std::vector<Stroke>;

// Returns the ways to write a digit in a box of 60 x 100 units, y pointing down. A stroke is a
// smooth curve through its points, which is closed if it ends where it starts. A corner is where
// one stroke ends and the next one begins.
const std::vector<Skeleton>& skeletons(int64_t digit) {
  static const std::array<std::vector<Skeleton>, kDigits> kTable = {{
      {{{{30, 0}, {50, 17}, {56, 50}, {50, 83}, {30, 100}, {10, 83}, {4, 50}, {10, 17}, {30, 0}}},
       {{{32, 0}, {45, 20}, {48, 50}, {43, 82}, {28, 100}, {15, 80}, {12, 48}, {18, 18}, {32, 0}}},
       {{{38, 2}, {18, 10}, {5, 46}, {11, 84}, {30, 100}, {49, 84}, {55, 48}, {46, 14}, {24, 6}}}},
      {{{{30, 0}, {30, 100}}},
       {{{12, 24}, {24, 14}, {34, 0}}, {{34, 0}, {34, 100}}},
       {{{14, 20}, {32, 0}}, {{32, 0}, {32, 100}}, {{10, 100}, {54, 100}}}},
      {{{{6, 22}, {14, 5}, {32, 0}, {49, 10}, {50, 32}, {36, 60}, {6, 100}}, {{6, 100}, {56, 100}}},
       {{{8, 18}, {26, 0}, {48, 14}, {42, 48}, {12, 95}, {5, 84}, {20, 79}, {40, 96}, {58, 90}}},
       {{{4, 16}, {22, 0}, {46, 7}, {49, 30}, {32, 62}, {4, 98}},
        {{4, 98}, {20, 90}, {40, 99}, {58, 92}}}},
      {{{{6, 12}, {28, 0}, {48, 11}, {45, 35}, {22, 47}},
        {{22, 47}, {48, 56}, {54, 79}, {34, 100}, {4, 88}}},
       {{{6, 2}, {52, 2}}, {{52, 2}, {26, 40}}, {{26, 40}, {48, 50}, {54, 76}, {32, 99}, {4, 88}}},
       {{{8, 6}, {34, 0}, {48, 18}, {36, 40}, {20, 48}, {36, 52}, {52, 74}, {36, 98}, {6, 94}}}},
      {{{{12, 2}, {4, 58}}, {{4, 58}, {56, 58}}, {{44, 22}, {42, 100}}},
       {{{42, 0}, {4, 66}}, {{4, 66}, {58, 66}}, {{42, 0}, {42, 100}}},
       {{{10, 0}, {7, 34}, {18, 53}, {36, 52}, {50, 42}}, {{52, 0}, {49, 50}, {46, 100}}}},
      {{{{52, 0}, {12, 0}},
        {{12, 0}, {8, 44}},
        {{8, 44}, {30, 37}, {51, 50}, {53, 77}, {34, 99}, {4, 90}}},
       {{{16, 4}, {12, 40}}, {{12, 40}, {38, 44}, {52, 68}, {40, 94}, {6, 98}}, {{16, 4}, {56, 2}}},
       {{{54, 3}, {30, 1}, {13, 13}, {16, 37}, {40, 52}, {50, 74}, {36, 97}, {6, 95}}}},
      {{{{46, 2}, {20, 24}, {5, 62}, {14, 93}, {34, 100}, {52, 84}, {47, 61}, {28, 53}, {8, 70}}},
       {{{36, 0}, {14, 42}, {6, 76}, {26, 100}, {49, 85}, {45, 62}, {25, 56}, {7, 72}}},
       {{{52, 8}, {34, 0}, {12, 24}, {4, 64}, {18, 97}, {44, 95}, {54, 72}, {38, 54}, {8, 68}}}},
      {{{{4, 2}, {56, 2}}, {{56, 2}, {36, 46}, {24, 100}}},
       {{{4, 2}, {56, 2}}, {{56, 2}, {24, 100}}, {{18, 52}, {52, 52}}},
       {{{5, 18}, {7, 3}}, {{7, 3}, {54, 4}}, {{54, 4}, {36, 44}, {28, 100}}}},
      {{{{50, 14}, {30, 0}, {11, 15}, {30, 48}, {52, 80}, {30, 100}, {8, 80}, {30, 48}, {50, 14}}},
       {{{30, 0}, {47, 10}, {47, 35}, {30, 46}, {13, 35}, {13, 10}, {30, 0}},
        {{30, 46}, {51, 59}, {52, 87}, {30, 100}, {8, 87}, {9, 59}, {30, 46}}},
       {{{48, 6}, {28, 0}, {11, 16}, {45, 61}, {50, 86}, {28, 100}, {8, 84}, {30, 48}, {54, 10}}}},
      {{{{50, 22}, {34, 0}, {12, 9}, {7, 33}, {24, 50}, {43, 40}, {50, 22}},
        {{50, 22}, {50, 60}, {42, 100}}},
       {{{51, 26}, {32, 50}, {9, 38}, {10, 11}, {32, 0}, {50, 14}, {54, 46}, {44, 84}, {12, 98}}},
       {{{50, 4}, {26, 0}, {6, 18}, {14, 44}, {34, 46}, {47, 28}}, {{50, 4}, {44, 100}}}},
  }};
  return kTable[size_t(digit)];
}

// The consecutive random words of one stream.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t stream) : key_{seed, stream} {}

  uint32_t word() {
    if (next_ % 4 == 0) four_ = philox(key_, next_ / 4);
    return four_.word[next_++ % 4];
  }
  double uniform(double low, double high) { return uniform(word(), low, high); }
  static double uniform(uint32_t word, double low, double high) {
    return low + (high - low) * double(uniform_float(word));
  }
  // Returns a number from 0 to n - 1 with a bias below n / 2^32.
  uint32_t below(uint32_t n) { return uint32_t((uint64_t(word()) * n) >> 32); }

 private:
  PhiloxKey key_;
  uint64_t next_ = 0;
  Philox4 four_{};
};

// A generator with the same seed numbers its streams from zero. The salt keeps the streams of the
// digits apart from these.
constexpr uint64_t kSeedSalt = 0x64696769747321ull;
constexpr uint64_t kOrderStreams = uint64_t(1) << 63;

// Returns the label of an image. The ten labels of each block of ten images are a Fisher-Yates
// shuffle.
int64_t label_of(uint64_t seed, int64_t index) {
  Draws draws(seed ^ kSeedSalt, kOrderStreams + uint64_t(index / kDigits));
  std::array<int64_t, kDigits> order{};
  for (int i = 0; i < kDigits; ++i) {
    const size_t j = draws.below(uint32_t(i + 1));
    order[size_t(i)] = order[j];
    order[j] = i;
  }
  return order[size_t(index % kDigits)];
}

// Returns cubic B-spline weights for t in [0, 1). They make the displacement field below twice
// continuously differentiable.
std::array<double, 4> spline_weights(double t) {
  const double u = 1 - t;
  return {u * u * u / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * u * u * u - 6 * u * u + 4) / 6,
          t * t * t / 6};
}

// Returns a smooth random displacement of the plane: a lattice of random vectors 40 units apart,
// interpolated by a cubic B-spline. The lattice covers -20 to 120 along both axes; curves exceed
// their box by less than that.
auto random_bend(Draws& draws) {
  constexpr double kStep = 40;
  constexpr int kCells = 4;
  std::array<std::array<Point, kCells + 3>, kCells + 3> lattice;
  for (auto& row : lattice) {
    for (Point& p : row) {
      p = {draws.uniform(-kMaxBend, kMaxBend), draws.uniform(-kMaxBend, kMaxBend)};
    }
  }
  return [=](Point p) {
    const double gx = (p.x + 20) / kStep, gy = (p.y + 20) / kStep;
    const int ix = std::clamp(int(gx), 0, kCells - 1), iy = std::clamp(int(gy), 0, kCells - 1);
    const auto wx = spline_weights(gx - ix), wy = spline_weights(gy - iy);
    Point moved = p;
    for (size_t j = 0; j < 4; ++j) {
      for (size_t i = 0; i < 4; ++i) {
        const Point& v = lattice[size_t(iy) + j][size_t(ix) + i];
        moved.x += wx[i] * wy[j] * v.x;
        moved.y += wx[i] * wy[j] * v.y;
      }
    }
    return moved;
  };
}

// Returns a random affine map from units to pixels: matrix * (unit - center) + shift.
auto random_affine(Draws& draws) {
  // A rotation in rational form with t = tan(angle / 2), because the last bits of libm's functions
  // differ between platforms.
  const double t = draws.uniform(-kMaxTurn / 2, kMaxTurn / 2);
  const double c = (1 - t * t) / (1 + t * t), s = 2 * t / (1 + t * t);
  const double shear = draws.uniform(-kMaxShear, kMaxShear);
  const double sx = kPixelsPerUnit * draws.uniform(kMinScale, kMaxScale);
  const double sy = kPixelsPerUnit * draws.uniform(kMinScale, kMaxScale);
  const double xx = c * sx, xy = (c * shear - s) * sy, yx = s * sx, yy = (s * shear + c) * sy;
  const Point shift = {(kSize - 1) / 2.0 + draws.uniform(-kMaxShift, kMaxShift),
                       (kSize - 1) / 2.0 + draws.uniform(-kMaxShift, kMaxShift)};
  return [=](Point p) {
    const double x = p.x - 30, y = p.y - 50;
    return Point{xx * x + xy * y + shift.x, yx * x + yy * y + shift.y};
  };
}

// Returns the Catmull-Rom curve through a stroke's points as a polyline.
std::vector<Point> flatten(const Stroke& stroke) {
  constexpr int kSteps = 6;
  const size_t last = stroke.size() - 1;
  const bool closed = stroke[0].x == stroke[last].x && stroke[0].y == stroke[last].y;
  std::vector<Point> line{stroke[0]};
  line.reserve(last * kSteps + 1);
  for (size_t i = 0; i < last; ++i) {
    const Point p1 = stroke[i], p2 = stroke[i + 1];
    const Point p0 = i > 0 ? stroke[i - 1] : closed ? stroke[last - 1] : p1;
    const Point p3 = i + 1 < last ? stroke[i + 2] : closed ? stroke[1] : p2;
    for (int step = 1; step <= kSteps; ++step) {
      const double t = double(step) / kSteps;
      const double a = t * (-0.5 + t * (1 - 0.5 * t)), b = 1 + t * t * (1.5 * t - 2.5);
      const double c = t * (0.5 + t * (2 - 1.5 * t)), d = t * t * (0.5 * t - 0.5);
      line.push_back(
          {a * p0.x + b * p1.x + c * p2.x + d * p3.x, a * p0.y + b * p1.y + c * p2.y + d * p3.y});
    }
  }
  return line;
}

using Field = std::array<double, kDigitPixels>;

// Lowers `nearest` to the squared distance from the segment a-b for pixels within `reach` of it.
void approach(Field& nearest, Point a, Point b, double reach) {
  const auto first = [&](double v) {
    return std::max(0, int(std::ceil(std::max(v - reach, 0.0))));
  };
  const auto last = [&](double v) {
    return int(std::floor(std::clamp(v + reach, -1.0, kSize - 1.0)));
  };
  const int x0 = first(std::min(a.x, b.x)), x1 = last(std::max(a.x, b.x));
  const int y0 = first(std::min(a.y, b.y)), y1 = last(std::max(a.y, b.y));
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double scale = 1 / std::max(dx * dx + dy * dy, 1e-12);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const double px = x - a.x, py = y - a.y;
      const double t = std::clamp((px * dx + py * dy) * scale, 0.0, 1.0);
      const double ex = px - t * dx, ey = py - t * dy;
      double& best = nearest[size_t(y * kSize + x)];
      best = std::min(best, ex * ex + ey * ey);
    }
  }
}

// Pixels are continuous functions of doubles and are rounded once at the end, so a platform that
// fuses multiply and add still produces the same bytes.
void draw(uint64_t seed, int64_t index, int64_t digit, uint8_t* pixels) {
  Draws draws(seed ^ kSeedSalt, uint64_t(index));
  const auto& variants = skeletons(digit);
  const Skeleton& skeleton = variants[draws.below(uint32_t(variants.size()))];
  const auto bend = random_bend(draws);
  const auto affine = random_affine(draws);
  const double radius = draws.uniform(kMinRadius, kMaxRadius);
  const double blur = draws.uniform(kMinBlur, kMaxBlur);
  const double ink = draws.uniform(kMinInk, kMaxInk);
  const double noise = draws.uniform(0, kMaxNoise);

  const double reach = radius + blur / 2;
  Field nearest;
  nearest.fill(reach * reach);
  for (const Stroke& stroke : skeleton) {
    std::vector<Point> line = flatten(stroke);
    for (Point& p : line) p = affine(bend(p));
    for (size_t i = 1; i < line.size(); ++i) approach(nearest, line[i - 1], line[i], reach);
  }
  std::array<uint32_t, kDigitPixels> words;
  for (uint32_t& word : words) word = draws.word();
  // A separate loop, which the compiler vectorizes.
  for (size_t i = 0; i < kDigitPixels; ++i) {
    const double inside = std::clamp((reach - std::sqrt(nearest[i])) / blur, 0.0, 1.0);
    const double cover = inside * inside * (3 - 2 * inside);
    const double value = ink * cover + Draws::uniform(words[i], -noise, noise);
    pixels[i] = uint8_t(int(std::clamp(value, 0.0, 255.0) + 0.5));
  }
}

}  // namespace

Batch draw_digits(uint64_t seed, int64_t first, int64_t count) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  require<ValueError>(
      first >= 0 && count >= 0 && count <= kMax / kDigitPixels && first <= kMax - count,
      "draw_digits: cannot draw ", count, " images from index ", first,
      "; neither may be negative, and indices and pixels must fit int64");
  const Batch images{empty({count, 1, kSize, kSize}, {.dtype = kUInt8}),
                     empty({count}, {.dtype = kInt64})};
  uint8_t* pixels = images.inputs.data<uint8_t>();
  int64_t* labels = images.targets.data<int64_t>();
  parallel_for(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      labels[i] = label_of(seed, first + i);
      draw(seed, first + i, labels[i], pixels + i * kDigitPixels);
    }
  });
  return images;
}

Splits Digits::load(uint64_t) const {
  return splits_of_images(draw_digits(seed, 0, train_size),
                          draw_digits(seed, train_size, test_size));
}

Outline Digits::outline(uint64_t) const { return outline_of(train_size, test_size, kSize, kSize); }

}  // namespace taper::v0::data
