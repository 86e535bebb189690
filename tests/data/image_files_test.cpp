// PNG and JPEG files, folders of them, and records of CIFAR.
#include "data/images/image_files.h"

#include <algorithm>
#include <cstdio>

#include "autograd/ops/binary_ops.h"
#include "data/images/cifar.h"
#include "data/images/image_source.h"
#include "data/loader.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"
#include "tests/data_files.h"
#include "tests/image_bytes.h"

#ifdef TAPER_WITH_IMAGES
#include <png.h>
#endif

namespace taper::v0::data {
namespace {

class ImageFiles : public DataFiles {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  // Returns the message with which a file of these bytes is refused.
  std::string refusal(const std::string& bytes) const {
    const std::string file = write("refused", bytes);
    std::string message = refusal_of<InputError>([&] { (void)read_image(file); });
    return message.starts_with(file) ? message.substr(file.size()) : message;
  }
};

// --- CIFAR ---

std::string record(const std::string& labels, int first) {
  std::string out = labels;
  for (int i = 0; i < 3072; ++i) out += char(first + i / 1024);
  return out;
}

TEST_F(ImageFiles, RecordsOfCifarAreLabelsAndThreePlanes) {
  const std::string ten = write("ten.bin", record("\x03", 10) + record("\x09", 20));
  const Batch b = read_cifar(ten);
  EXPECT_EQ(b.inputs.shape(), (Shape{2, 3, 32, 32}));
  EXPECT_EQ(b.inputs.dtype(), kUInt8);
  EXPECT_EQ(b.inputs.select(2, 31).select(2, 0).to_vector<int64_t>(),
            (std::vector<int64_t>{10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(b.targets.to_vector<int64_t>(), (std::vector<int64_t>{3, 9}));
  const std::string hundred = write("hundred.bin", record("\x0f\x62", 0));
  EXPECT_EQ(read_cifar(hundred, CifarLabels::kCoarse).targets.item<int64_t>(), 15);
  EXPECT_EQ(read_cifar(hundred, CifarLabels::kFine).targets.item<int64_t>(), 98);
  for (const std::string& bad : {write("empty", ""), write("cut", record("\x03", 1).substr(1)),
                                 write("label", record("\x0a", 1)), hundred, path("missing")}) {
    EXPECT_EQ(refusal_of<InputError>([&] { (void)read_cifar(bad); }).find(bad), 0u);
  }
}

TEST_F(ImageFiles, CifarIsATypeOfData) {
  for (int i = 1; i <= 5; ++i)
    write(concat_to_string("data_batch_", i, ".bin"), record(std::string(1, char(i)), i));
  write("test_batch.bin", record("\x01", 255));
  Cifar config;
  config.root = directory_;
  const Splits data = config.load(1);
  EXPECT_EQ(data.train->size(), 5);
  EXPECT_EQ(data.input_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(data.class_names.at(9), "9");
  // The bytes 255, 0 and 1, scaled to [0, 1].
  EXPECT_NEAR(data.test->get(tensor({0})).inputs.sum().item<float>() / 1024, 256 / 255.F, 1e-4);
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(config.load(1).class_names.at(9), "j");
  EXPECT_EQ(config.more(data, directory_ / "test_batch.bin")->size(), 1);
  config.root = path("none");
  EXPECT_NE(refusal_of<InputError>([&] { config.load(1); }).find("data_batch_1.bin"),
            std::string::npos);
}

#ifdef TAPER_WITH_IMAGES

// --- PNG and JPEG ---

Tensor picture(int64_t channels, int64_t height, int64_t width) {
  return remainder(arange(channels * height * width) * 7, 251)
      .to(kUInt8)
      .reshape({channels, height, width});
}

TEST_F(ImageFiles, APngComesBackAsItWasWritten) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor x = picture(channels, 5, 7);
    write_png(x, path("x.png"));
    const Tensor y = read_image(path("x.png"));
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.to_vector<uint8_t>(), x.to_vector<uint8_t>()) << channels;
    const Tensor rgb = read_image(path("x.png"), ImageMode::kRgb);
    const Tensor grey = read_image(path("x.png"), ImageMode::kGray);
    EXPECT_EQ(rgb.shape(), (Shape{3, 5, 7}));
    EXPECT_EQ(grey.shape(), (Shape{1, 5, 7}));
    for (int64_t c = 0; c < 3; ++c) {  // the alpha channel is dropped
      EXPECT_EQ(rgb[c].to_vector<uint8_t>(), x[channels < 3 ? 0 : c].to_vector<uint8_t>());
    }
    for (size_t i = 0; i < 35; ++i) {
      const auto v = [&](int64_t c) { return double(rgb[c].to_vector<uint8_t>()[i]); };
      EXPECT_NEAR(double(grey.to_vector<uint8_t>()[i]), 0.299 * v(0) + 0.587 * v(1) + 0.114 * v(2),
                  0.501);
    }
  }
  EXPECT_THROW(write_png(zeros({3, 2, 2}), path("x.png")), ValueError);
  EXPECT_THROW(write_png(picture(5, 2, 2), path("x.png")), ValueError);
  EXPECT_THROW(write_png(picture(1, 2, 2), path("no/x.png")), Error);
}

// Encodes with libpng's own writer: 16 bits, a palette with a transparent color, single bits,
// interlaced.
std::string png_of(int depth, int color, int interlace, const std::vector<std::string>& rows,
                   int width) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  png_set_IHDR(png, info, png_uint_32(width), png_uint_32(rows.size()), depth, color, interlace, 0,
               0);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    const png_color colours[] = {{255, 0, 0}, {0, 128, 0}, {1, 2, 3}};
    const png_byte alphas[] = {255, 7};
    png_set_PLTE(png, info, colours, 3);
    png_set_tRNS(png, info, alphas, 2, nullptr);
  }
  std::vector<png_bytep> lines;
  for (const std::string& row : rows) {
    lines.push_back(reinterpret_cast<png_bytep>(const_cast<char*>(row.data())));
  }
  png_set_rows(png, info, lines.data());
  png_write_png(png, info, 0, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

TEST_F(ImageFiles, PngsOfEveryKindBecomeBytes) {
  const auto bytes = [&](const std::string& file) {
    return read_image(write("x", file)).to_vector<int64_t>();
  };
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(bytes(png_of(16, PNG_COLOR_TYPE_GRAY, 0, {std::string("\x80\x00\xff\xff", 4)}, 2)),
            (Ints{128, 255}));
  EXPECT_EQ(bytes(png_of(1, PNG_COLOR_TYPE_GRAY, 0, {"\xa0", "\x40"}, 3)),
            (Ints{255, 0, 255, 0, 255, 0}));
  EXPECT_EQ(bytes(png_of(8, PNG_COLOR_TYPE_PALETTE, 0, {std::string("\0\1\2", 3)}, 3)),
            (Ints{255, 0, 1, 0, 128, 2, 0, 0, 3, 255, 7, 255}));
  EXPECT_EQ(bytes(png_of(8, PNG_COLOR_TYPE_GRAY, 1, {"abc", "def", "ghi"}, 3)),
            (Ints{97, 98, 99, 100, 101, 102, 103, 104, 105}));
}

Tensor smooth(int64_t channels) {
  const Tensor at = arange(16).unsqueeze(1) * 6 + arange(20) * 4;
  const Tensor c = (arange(channels) * 40).reshape({channels, 1, 1});
  return (at.unsqueeze(0) + c).to(kUInt8);
}

void expect_near(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.shape(), wanted.shape());
  const std::vector<float> a = got.to_floats(), b = wanted.to_floats();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 3) << i;
}

TEST_F(ImageFiles, AJpegIsReadNearlyAsItWas) {
  const std::string colour = write("c.jpg", jpeg_of(smooth(3), JCS_RGB));
  expect_near(read_image(colour), smooth(3));
  const std::string grey = write("g.jpg", jpeg_of(smooth(1), JCS_GRAYSCALE));
  expect_near(read_image(grey), smooth(1));
  expect_near(read_image(grey, ImageMode::kRgb), smooth(1).expand({3, 16, 20}));
  expect_near(read_image(colour, ImageMode::kGray), smooth(3)[1].unsqueeze(0) - 7);
  // CMYK, which Adobe's marker declares as inverted. Without black, the inks are the RGB colors
  // themselves.
  Tensor ink = smooth(4).clone();
  ink[3].fill_(255);
  const std::string cmyk = write("k.jpg", jpeg_of(ink, JCS_CMYK));
  expect_near(read_image(cmyk), smooth(3));
}

TEST_F(ImageFiles, WhatIsNoWholeImageIsRefused) {
  EXPECT_EQ(refusal(""), ": the file is empty");
  EXPECT_EQ(refusal("text"), ": neither PNG nor JPEG");
  EXPECT_EQ(refusal("GIF89a"),
            ": a GIF image, while Taper reads PNG and JPEG; `apt install imagemagick; mogrify "
            "-format png *.gif` converts such files");
  EXPECT_NE(refusal_of<InputError>([&] { (void)read_image(directory_); }).find("directory"),
            std::string::npos);
  write_png(picture(3, 40, 30), path("x.png"));
  const std::string files[] = {read_file(path("x.png"), ""), jpeg_of(picture(3, 40, 30), JCS_RGB)};
  for (const std::string& file : files) {
    const bool is_png = file[0] != '\xff';
    const std::string head =
        concat_to_string(": the ", is_png ? "PNG" : "JPEG", " image is damaged or cut off: ");
    for (size_t size = is_png ? 8 : 3; size + 2 < file.size(); size += 13) {
      EXPECT_EQ(refusal(file.substr(0, size)).find(head), 0u) << size;
    }
    // A flipped bit leads to an image or a refusal, to nothing else.
    for (size_t bit = 0; bit < 8 * file.size(); bit += 61) {
      std::string damaged = file;
      damaged[bit / 8] = char(damaged[bit / 8] ^ 1 << bit % 8);
      (void)refusal(damaged);
    }
  }
  // Claims 65500 x 65500 pixels in a small file, in the bytes from which libjpeg reads the sizes.
  std::string huge = files[1];
  const size_t at = huge.find("\xff\xc0") + 5;
  huge.replace(at, 4, "\xff\xdc\xff\xdc");
  EXPECT_EQ(refusal(huge).find(": the header claims 65500x65500 pixels, more than a file of "), 0u);
}

TEST(ImageSize, SmallerByMeansAndLargerByLines) {
  const Tensor x = arange(16).to(kFloat32).reshape({1, 4, 4});
  EXPECT_EQ(resize(x, 2, 2).to_floats(), (std::vector<float>{2.5, 4.5, 10.5, 12.5}));
  EXPECT_EQ(resize(x, 4, 4).to_floats(), x.to_floats());
  EXPECT_EQ(resize(x.unsqueeze(0), 2, 8).shape(), (Shape{1, 1, 2, 8}));
  EXPECT_EQ(resize(full({1, 3, 5}, 0.5), 7, 2).to_floats(), std::vector<float>(14, 0.5F));
}

class Folders : public ImageFiles {
 protected:
  void put(const std::string& name, int64_t value, int64_t size = 4) const {
    write(name, "");  // creates the folder
    write_png(full({3, size, size}, value, {.dtype = kUInt8}), directory_ / name);
  }
};

TEST_F(Folders, AreClassesInTheOrderOfTheirNames) {
  put("dog/b.png", 51);
  put("dog/deep/a.PNG", 102);
  put("cat/z.png", 0, 8);
  write("cat/notes.txt", "no image");
  write("cat/y.jpeg", jpeg_of(full({3, 16, 16}, 255, {.dtype = kUInt8}), JCS_RGB));
  const ImageFolder set(directory_, {.size = 4});
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.targets().to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 1}));
  for (const int64_t workers : {0, 2}) {
    DataLoader loader(set, {.batch_size = 4, .workers = workers});
    loader.start(0);
    const Batch b = *loader.next();
    EXPECT_EQ(b.inputs.shape(), (Shape{4, 3, 4, 4}));
    EXPECT_EQ(b.inputs.select(1, 0).select(1, 0).select(1, 0).to_floats(),
              (std::vector<float>{1, 0, 0.2F, 0.4F}));
    EXPECT_EQ(b.targets.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 1}));
  }
  write("dog/bad.jpg", "\xff\xd8\xff");
  EXPECT_EQ(
      refusal_of<InputError>([&] {
        (void)ImageFolder(directory_).get(tensor({3}));
      }).find(concat_to_string("sample 3: ", path("dog/bad.jpg"), ": the JPEG image is damaged")),
      0u);
  std::filesystem::create_directories(directory_ / "empty");
  EXPECT_EQ(refusal_of<InputError>([&] {
              ImageFolder{directory_};
            }).find("Found no valid file for the classes empty."),
            0u);
  EXPECT_THROW(ImageFolder(directory_ / "none"), InputError);
  EXPECT_THROW(ImageFolder(directory_ / "cat"), InputError);
}

TEST_F(Folders, AreATypeOfData) {
  for (int i = 0; i < 10; ++i) {
    put(concat_to_string("set/a/", i, ".png"), i);
    put(concat_to_string("set/b/", i, ".png"), 100 + i);
  }
  Images config{};
  config.path = path("set");
  config.size = "4";
  config.normalize = Images::Normalize::kNone;
  const Splits data = config.load(1);
  EXPECT_EQ(data.input_shape, (Shape{3, 4, 4}));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.train->size(), 16);
  const std::vector<int64_t> y = data.test->get(arange(4)).targets.to_vector<int64_t>();
  EXPECT_EQ(std::ranges::count(y, 0), 2);
  EXPECT_EQ(config.files().at(0).parts.size(), 20u);
  EXPECT_EQ(config.more(data, directory_ / "set")->size(), 20);
  const DatasetPtr one = config.more(data, directory_ / "set/b/7.png");
  EXPECT_EQ(one->fields(), std::vector<std::string>{"inputs"});
  EXPECT_EQ(one->get(tensor({0})).inputs.shape(), (Shape{1, 3, 4, 4}));
  config.split.test = path("set/a");
  EXPECT_THROW(config.load(1), InputError);
  config.grey = true;
  config.split.test = path("set");
  EXPECT_EQ(config.load(1).test->get(tensor({0})).inputs.shape(), (Shape{1, 1, 4, 4}));
}

#else

TEST_F(ImageFiles, AreRefusedWithAdviceByABuildWithoutTheirLibraries) {
  const std::string file = write("x.png", "\x89PNG\r\n\x1a\n");
  EXPECT_NE(refusal_of<Error>([&] { (void)read_image(file); }).find("libpng-dev"),
            std::string::npos);
}

#endif

}  // namespace
}  // namespace taper::v0::data
