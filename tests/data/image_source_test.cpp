// Images as people have them: what is found in folders and tables of labels, and how the files
// become samples.
#include "data/images/image_source.h"

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "data/images/image_files.h"
#include "data/images/image_header.h"
#include "data/images/image_set.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"
#include "tests/data_files.h"
#include "tests/image_bytes.h"
#include "tests/text.h"

#ifdef TAPER_WITH_IMAGES

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ImageSource : public DataFiles {
 protected:
  // Writes a PNG of one color.
  void put(const std::string& name, int64_t value, int64_t height = 8, int64_t width = 8,
           int64_t channels = 3) const {
    write(name, "");
    write_png(full({channels, height, width}, value, {.dtype = kUInt8}), directory_ / name);
  }
  // Writes `count` images for each class. Their brightness is that of the class.
  void put_classes(const std::string& folder, int count, const Names& classes) const {
    for (size_t k = 0; k < classes.size(); ++k) {
      for (int i = 0; i < count; ++i) {
        put(concat_to_string(folder, "/", classes[k], "/", i, ".png"), int64_t(40 + 100 * k));
      }
    }
  }
  std::string at(const std::string& name) const { return (directory_ / name).string(); }
  Images images(const std::string& folder) const {
    Images out;
    out.path = at(folder);
    return out;
  }
};

// --- reading ---

// An upright image of 2 rows and 3 columns, whose pixels are 0 to 5 times 40.
Tensor numbered() { return (arange(6) * 40).to(kUInt8).reshape({1, 2, 3}).contiguous(); }

// Returns the image as it is stored with that orientation.
Tensor stored(const Tensor& upright, int orientation) {
  Tensor x = upright;
  if (orientation == 2 || orientation == 3) x = flip(x, {2});
  if (orientation == 3 || orientation == 4) x = flip(x, {1});
  if (orientation == 6 || orientation == 7) x = flip(x, {2});
  if (orientation == 7 || orientation == 8) x = flip(x, {1});
  return orientation >= 5 ? x.transpose(1, 2) : x;
}

// Returns a segment of EXIF with one entry, in either order of bytes.
std::string exif(int orientation, bool is_little) {
  const auto two = [&](int value) {
    const char high = char(value >> 8), low = char(value & 255);
    return is_little ? std::string{low, high} : std::string{high, low};
  };
  const auto four = [&](int value) {
    return is_little ? two(value) + two(0) : two(0) + two(value);
  };
  const std::string tiff = (is_little ? "II" : "MM") + two(42) + four(8) + two(1) + two(0x112) +
                           two(3) + four(1) + two(orientation) + two(0) + four(0);
  const std::string data = std::string("Exif\0\0", 6) + tiff;
  const size_t length = data.size() + 2;
  return std::string("\xff\xe1") + char(length >> 8) + char(length & 255) + data;
}

TEST_F(ImageSource, TheOrientationOfExifIsApplied) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool is_little : {false, true}) {
      std::string jpeg = jpeg_of(stored(numbered(), orientation), JCS_GRAYSCALE);
      jpeg.insert(2, exif(orientation, is_little));
      const std::string file = write("x.jpg", jpeg);
      EXPECT_EQ(read_image_header(file).orientation, orientation);
      const Tensor x =
          read_sample_image(file, {.channels = 1, .height = 2, .width = 3, .fit = ImageFit::kPad});
      ASSERT_EQ(x.shape(), (Shape{1, 2, 3}));
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(x.to_floats()[i], numbered().to_floats()[i], 3) << orientation << " " << i;
      }
    }
  }
  // A wrong value, and a block that ends too early, count as upright.
  for (const std::string& block : {exif(9, true), exif(6, true).substr(0, 20)}) {
    std::string jpeg = jpeg_of(numbered(), JCS_GRAYSCALE);
    std::string shorter = block;
    shorter[3] = char(shorter.size() - 2);
    jpeg.insert(2, shorter);
    EXPECT_EQ(read_image_header(write("x.jpg", jpeg)).orientation, 1);
  }
}

TEST_F(ImageSource, AnImageOfAnotherShapeIsCutPaddedOrStretched) {
  // Columns 0 to 7, in an image that is twice as wide as high.
  const Tensor columns = (arange(8) * 30).to(kUInt8).expand({1, 4, 8}).contiguous();
  write_png(columns, at("x.png"));
  const auto read = [&](ImageFit fit, int64_t height, int64_t width) {
    const Tensor x = read_sample_image(
        at("x.png"), {.channels = 1, .height = height, .width = width, .fit = fit});
    EXPECT_EQ(x.shape(), (Shape{1, height, width}));
    return x.to_vector<int64_t>();
  };
  using Ints = std::vector<int64_t>;
  EXPECT_EQ(read(ImageFit::kCrop, 2, 2), (Ints{75, 135, 75, 135}));
  EXPECT_EQ(read(ImageFit::kSquash, 1, 4), (Ints{15, 75, 135, 195}));
  EXPECT_EQ(read(ImageFit::kPad, 4, 4), (Ints{0, 0, 0, 0, 15, 75, 135, 195,  //
                                              15, 75, 135, 195, 0, 0, 0, 0}));
  EXPECT_EQ(read(ImageFit::kCrop, 4, 8), columns.to_vector<int64_t>());
  EXPECT_EQ(read(ImageFit::kSquash, 8, 8)[0], 0);  // rows grow
  EXPECT_EQ(read(ImageFit::kCrop, 16, 16)[0], 60);
}

// The pixels of a JPEG that is decoded at a fraction of its size are those of the whole image,
// averaged.
TEST_F(ImageSource, ALargeJpegIsDecodedAtAFraction) {
  const Tensor y = arange(256).unsqueeze(1), x = arange(320).unsqueeze(0);
  const Tensor plane = (y * 0.4 + x * 0.35).to(kUInt8);
  const std::string file = write("x.jpg", jpeg_of(stack({plane, plane, plane}), JCS_RGB));
  for (const auto& [height, width] : {std::pair{32, 40}, {64, 80}, {100, 130}, {256, 320}}) {
    const Tensor whole = resize(read_image(file).to(kFloat32), height, width);
    const Tensor scaled =
        read_sample_image(file, {.height = height, .width = width, .fit = ImageFit::kSquash});
    const std::vector<float> a = whole.to_floats(), b = scaled.to_floats();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2.5) << height << " " << i;
  }
}

TEST_F(ImageSource, AHeaderIsReadWithoutPixels) {
  put("x.png", 7, 5, 9);
  put("g.png", 7, 5, 9, 1);
  const ImageHeader color = read_image_header(at("x.png"));
  EXPECT_EQ(color.height, 5);
  EXPECT_EQ(color.width, 9);
  EXPECT_FALSE(color.is_gray);
  EXPECT_TRUE(read_image_header(at("g.png")).is_gray);
  const std::string jpeg = jpeg_of(full({3, 40, 30}, 9, {.dtype = kUInt8}), JCS_RGB);
  EXPECT_EQ(read_image_header(write("x.jpg", jpeg)).width, 30);
  // Every beginning of a file is a whole header or is refused.
  for (const std::string& file : {read_file(at("x.png"), ""), jpeg}) {
    for (size_t size = 0; size < 64; ++size) {
      (void)refusal_of<InputError>(
          [&] { (void)read_image_header(write("cut", file.substr(0, size))); });
    }
  }
  struct Row {
    std::string bytes, says;
  };
  const Row rows[] = {
      {"", ": the file is empty"},
      {"hello", ": neither PNG nor JPEG"},
      {"RIFF....WEBPVP8 ",
       ": a WebP image, while Taper reads PNG and JPEG; `apt install "
       "imagemagick; mogrify -format png *.webp` converts such files"},
      {std::string("II*\0....", 8), ": a TIFF image"},
      {"BM......", ": a BMP image"},
      {std::string("\0\0\0\x18"
                   "ftypheic",
                   12),
       ": a HEIC or AVIF image, while Taper reads PNG "
       "and JPEG; `apt install libheif-examples"},
      {jpeg.substr(0, 12), ": the JPEG image is damaged or cut off: its header is incomplete"}};
  for (const Row& row : rows) {
    const std::string message =
        refusal_of<InputError>([&] { (void)read_image_header(write("other", row.bytes)); });
    EXPECT_TRUE(contains(message, at("other") + row.says)) << message;
  }
}

// A damaged file is read or refused, and a header that claims too much is refused before memory is
// allocated.
TEST_F(ImageSource, DamagedFilesAreReadOrRefused) {
  put("x.png", 9, 20, 30);
  std::string jpeg = jpeg_of(full({3, 64, 48}, 9, {.dtype = kUInt8}), JCS_RGB);
  jpeg.insert(2, exif(6, true));
  const auto refusal = [&](const std::string& bytes, ImageFit fit) {
    const std::string file = write("damaged", bytes);
    return refusal_of<InputError>([&] {
      const Tensor x = read_sample_image(file, {.height = 7, .width = 5, .fit = fit});
      EXPECT_EQ(x.shape(), (Shape{3, 7, 5}));
      (void)read_image_header(file);
    });
  };
  for (const std::string& file : {read_file(at("x.png"), ""), jpeg}) {
    for (size_t size = 0; size + 2 < file.size(); size += 7) {
      EXPECT_NE(refusal(file.substr(0, size), ImageFit::kCrop), "accepted") << size;
    }
    for (size_t bit = 0; bit < 8 * file.size(); bit += 37) {
      std::string damaged = file;
      damaged[bit / 8] = char(damaged[bit / 8] ^ 1 << bit % 8);
      (void)refusal(damaged, bit % 2 == 0 ? ImageFit::kPad : ImageFit::kCrop);
    }
  }
  std::string huge = jpeg;
  huge.replace(huge.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_TRUE(contains(refusal(huge, ImageFit::kSquash),
                       "the header claims about 65504x65504 pixels, more than a file of "));
}

// --- class folders ---

TEST_F(ImageSource, FoldersAreDividedByClassIntoThreeParts) {
  put_classes("set", 120, {"cat", "dog"});
  write("set/cat/a.webp", "x");
  write("set/cat/b.webp", "x");
  write("set/notes.txt", "x");
  const Splits data = images("set").load(5);
  EXPECT_EQ(data.train->size(), 168);
  ASSERT_TRUE(data.validation);
  EXPECT_EQ(data.validation->size(), 24);
  EXPECT_EQ(data.test->size(), 48);
  EXPECT_TRUE(data.may_decide());
  for (const DatasetPtr& part : {data.train, data.validation, data.test}) {
    const std::vector<int64_t> y = part->get(arange(part->size())).targets.to_vector<int64_t>();
    EXPECT_EQ(std::ranges::count(y, 0), part->size() / 2);
  }
  constexpr const char* kLeftOut =
      "left out: 2 .webp, 1 .txt; `apt install imagemagick; mogrify -format png *.webp` converts "
      ".webp\n";
  for (const char* line :
       {": 240 images, 2 classes, 8x8, read in ", "  class  training  validation  test\n",
        "  cat          84          12    24\n", kLeftOut,
        "samples: 8x8 RGB, cut to the middle, normalized by the training images\n",
        "split: 168 training, 24 validation, 48 test, stratified by class, seed 0"}) {
    EXPECT_TRUE(contains(data.report, line)) << data.report;
  }
  // The seed of the run does not matter, that of the division does.
  Images other = images("set");
  const auto files_of = [](const Splits& s) {
    return s.test->get(arange(s.test->size())).inputs.to_floats();
  };
  EXPECT_EQ(files_of(images("set").load(6)), files_of(data));
  other.split = {.validation = "0", .test = "0.5"};
  EXPECT_EQ(other.load(1).test->size(), 120);
  EXPECT_FALSE(other.load(1).validation);
  EXPECT_FALSE(other.load(1).may_decide());
  other.split.test = "1e-9";
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { (void)other.load(1); }),
                       "240 images to train and 0 to test"));
  other.split = {.validation = "0.5", .test = "0.6"};
  EXPECT_TRUE(contains(refusal_of<OptionError>([&] { (void)other.load(1); }),
                       "split: validation 0.5 and test 0.6 leave nothing to train"));
}

TEST_F(ImageSource, FoldersOfPartsAreRecognizedInTheFormsThatPeopleHave) {
  struct Row {
    Names folders;  // each with the classes cat and dog
    Names plain;    // each with images and no class folders
    std::string note;
    int64_t train, validation, test;
  };
  const Row rows[] = {
      {{"train"}, {}, "parts: train/ to train\n", 10, 0, 2},
      {{"train", "test"}, {}, "parts: train/ to train, test/ to test\n", 12, 0, 12},
      {{"Train", "Test"}, {}, "parts: Train/ to train, Test/ to test\n", 12, 0, 12},
      {{"TRAINING", "Validation", "testing"},
       {},
       "parts: TRAINING/ to train, Validation/ to validate, testing/ to test\n",
       12,
       12,
       12},
      {{"train", "val"}, {}, "parts: train/ to train, val/ to test\n", 12, 0, 12},
      {{"train"},
       {"test"},
       "parts: train/ to train, not used: test/ (without class folders)\n",
       10,
       0,
       2},
      {{"train", "val"},
       {"test"},
       "parts: train/ to train, val/ to test, not used: test/ (without class folders)\n",
       12,
       0,
       12},
  };
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Row& row = rows[i];
    const std::string root = concat_to_string("set", i);
    for (const std::string& part : row.folders) {
      put_classes(concat_to_string(root, "/", part), 6, {"cat", "dog"});
    }
    for (const std::string& part : row.plain) put(concat_to_string(root, "/", part, "/1.png"), 3);
    const Splits data = images(root).load(0);
    EXPECT_EQ(data.class_names, (Names{"cat", "dog"})) << row.note;
    EXPECT_TRUE(contains(data.report, row.note)) << row.note << data.report;
    EXPECT_EQ(data.train->size(), row.train) << row.note;
    EXPECT_EQ(data.validation ? data.validation->size() : 0, row.validation) << row.note;
    EXPECT_EQ(data.test->size(), row.test) << row.note;
  }
  // Among other classes, and where it has no folders, `train` is a class.
  put_classes("vehicles", 6, {"bus", "train"});
  EXPECT_EQ(images("vehicles").load(0).class_names, (Names{"bus", "train"}));
}

TEST_F(ImageSource, WhatIsNoClassIsLeftOutOrRefusedWithAHint) {
  put_classes("zip", 6, {"cat", "dog", "__MACOSX"});
  write("zip/.DS_Store", "x");
  const Splits data = images("zip").load(0);
  EXPECT_EQ(data.class_names, (Names{"cat", "dog"}));
  EXPECT_TRUE(contains(data.report, "left out: 2 hidden\n")) << data.report;
  put_classes("outer/photos", 6, {"cat", "dog"});
  EXPECT_TRUE(contains(refusal_of<DataError>([&] { (void)images("outer").load(0); }),
                       "there is one class, 'photos', and nothing to learn; did you mean the 2 "
                       "folders in "));
  put_classes("one", 6, {"cat"});
  EXPECT_TRUE(contains(refusal_of<DataError>([&] { (void)images("one").load(0); }),
                       "one class, 'cat', and nothing to learn; `labels` names a table"));
  put("flat/1.png", 1);
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)images("flat").load(0); }),
                       "has 1 images and no folder for each class; put them in such folders, or "
                       "name a table of their labels: labels={file: TABLE, target: COLUMN}"));
}

TEST_F(ImageSource, OneCommandConvertsSeveralFormats) {
  put_classes("set", 6, {"cat", "dog"});
  for (const char* name : {"a.webp", "b.gif", "c.bmp", "d.tif", "e.heic"}) {
    write(concat_to_string("set/cat/", name), "x");
  }
  const std::string report = images("set").load(0).report;
  EXPECT_TRUE(contains(report,
                       "`apt install imagemagick; mogrify -format png *.bmp` converts .bmp, and in "
                       "the same way .gif, .tif, .webp"))
      << report;
  EXPECT_TRUE(contains(report, "converts .heic")) << report;
}

TEST_F(ImageSource, TheProgressOfDecodingCountsAllParts) {
  put_classes("set", 60, {"cat", "dog"});
  static std::vector<DecodingProgress> seen;
  seen.clear();
  set_decoding_progress([](const DecodingProgress& now) { seen.push_back(now); });
  (void)images("set").load(0);
  set_decoding_progress(nullptr);
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.front().done, 0);
  EXPECT_EQ(seen.back().done, 120);
  for (const DecodingProgress& now : seen) EXPECT_EQ(now.total, 120);
  EXPECT_TRUE(std::ranges::is_sorted(seen, {}, &DecodingProgress::done));
}

TEST_F(ImageSource, TheOutlineReadsOnlyHeaders) {
  put_classes("set", 10, {"a", "b"});
  write("set/a/0.png", read_file(at("set/a/0.png"), "").substr(0, 60));
  const Outline data = images("set").outline(0);
  EXPECT_EQ(data.input_shape, (Shape{3, 8, 8}));
  EXPECT_EQ(data.train->size(), 16);
  EXPECT_EQ(data.unread, "the pixels of the images");
}

TEST_F(ImageSource, TheSizeOfSamplesFollowsFromTheImages) {
  struct Row {
    std::vector<std::pair<int64_t, int64_t>> sizes;
    std::string option;
    Shape shape;
  };
  const Row rows[] = {{{{28, 20}, {28, 20}}, "auto", {3, 28, 20}},  // the same for all
                      {{{28, 20}, {28, 22}}, "auto", {3, 16, 16}},
                      {{{28, 20}, {28, 20}}, "12", {3, 12, 12}},
                      {{{28, 20}, {28, 20}}, "10x40", {3, 10, 40}},
                      {{{300, 200}, {300, 200}}, "auto", {3, 128, 128}},
                      {{{100, 70}, {90, 200}}, "auto", {3, 64, 64}},
                      {{{5, 6}, {7, 5}}, "auto", {3, 5, 5}}};
  for (const Row& row : rows) {
    fs::remove_all(directory_ / "set");
    for (const char* name : {"a", "b"}) {
      for (size_t i = 0; i < 4; ++i) {
        const auto [height, width] = row.sizes[i % row.sizes.size()];
        put(concat_to_string("set/", name, "/", i, ".png"), 9, height, width);
      }
    }
    Images config = images("set");
    config.size = row.option;
    EXPECT_EQ(config.outline(0).input_shape, row.shape)
        << row.option << " " << concat_to_string(row.shape);
  }
  for (const char* wrong : {"", "0", "12x", "x4", "4x4x4", "-3", "99999", "big"}) {
    EXPECT_FALSE(Images::is_size(wrong)) << wrong;
  }
}

TEST_F(ImageSource, GrayImagesHaveOneChannel) {
  for (int i = 0; i < 6; ++i) {
    put(concat_to_string("set/a/", i, ".png"), 10, 8, 8, 1);
    put(concat_to_string("set/b/", i, ".png"), 20, 8, 8, 1);
  }
  EXPECT_EQ(images("set").load(0).input_shape, (Shape{1, 8, 8}));
  Images config = images("set");
  config.grey = false;
  EXPECT_EQ(config.load(0).input_shape, (Shape{3, 8, 8}));
  put("set/b/c.png", 20);
  EXPECT_EQ(images("set").load(0).input_shape, (Shape{3, 8, 8}));
}

TEST_F(ImageSource, ChannelsAreNormalizedByTheTrainingImages) {
  put_classes("set", 20, {"a", "b"});
  for (const auto keep : {Images::InMemory::kAlways, Images::InMemory::kNever}) {
    Images config = images("set");
    config.in_memory = keep;
    const Splits data = config.load(0);
    const Batch all = data.train->get(arange(data.train->size()));
    EXPECT_NEAR(all.inputs.mean().item<float>(), 0, 1e-5);
    EXPECT_NEAR((all.inputs * all.inputs).mean().item<float>(), 1, 1e-5);
    ASSERT_EQ(data.images->mean.size(), 3u);
    EXPECT_NEAR(data.images->mean[0], 90 / 255., 1e-9);
    EXPECT_NEAR(data.images->std[0], 50 / 255., 1e-9);
    // Further images and raw pixels use the same numbers.
    const Tensor one = config.more(data, at("set/a/3.png"))->get(tensor({0})).inputs;
    EXPECT_NEAR(one.mean().item<float>(), -1, 1e-5);
    const Tensor raw = full({1, 3, 8, 8}, 140, {.dtype = kUInt8});
    EXPECT_NEAR(config.prepared(data, raw).mean().item<float>(), 1, 1e-5);
    config.normalize = Images::Normalize::kNone;
    EXPECT_NEAR(config.load(0).train->get(arange(32)).inputs.mean().item<float>(), 90 / 255., 1e-5);
    config.normalize = Images::Normalize::kImagenet;
    EXPECT_EQ(config.load(0).images->mean, (std::vector<double>{0.485, 0.456, 0.406}));
    config.grey = true;
    EXPECT_EQ(config.load(0).images->std.size(), 1u);
  }
}

// --- broken images ---

TEST_F(ImageSource, BrokenImagesAreLeftOutUpToALimit) {
  put_classes("set", 150, {"a", "b"});
  const std::string whole = read_file(at("set/a/0.png"), "");
  write("set/a/7.png", whole.substr(0, whole.size() / 2));
  write("set/b/9.png", "");
  write("set/b/11.jpg", "GIF89a");
  const Splits data = images("set").load(0);
  EXPECT_EQ(data.train->size() + data.validation->size() + data.test->size(), 298);
  EXPECT_TRUE(contains(data.report, "broken: 3 left out: ")) << data.report;
  for (const char* part : {"set/a/7.png: the PNG image is damaged or cut off: ",
                           "set/b/9.png: the file is empty", "set/b/11.jpg: a GIF image"}) {
    EXPECT_TRUE(contains(data.report, part)) << data.report;
  }
  const std::vector<int64_t> y =
      data.train->get(arange(data.train->size())).targets.to_vector<int64_t>();
  for (int64_t i = 0; i < data.train->size(); ++i) {  // labels still belong to their images
    const float x = data.train->get(tensor({i})).inputs.mean().item<float>();
    EXPECT_EQ(x > 0, y[size_t(i)] == 1) << i;
  }
  Images config = images("set");
  for (const char* limit : {"2", "0.5%", "0"}) {
    config.broken = limit;
    const std::string message = refusal_of<InputError>([&] { (void)config.load(0); });
    EXPECT_TRUE(contains(message, concat_to_string("3 of 301 images are broken or missing, more "
                                                   "than `broken: ",
                                                   limit, "` allows; the first: ")))
        << message;
  }
  config.broken = "3";
  EXPECT_NO_THROW((void)config.load(0));
  for (const char* wrong : {"", "%", "-1", "1.5", "101%", "few"}) {
    EXPECT_FALSE(Images::is_limit(wrong)) << wrong;
  }
}

// --- tables of labels ---

class ImageTables : public ImageSource {
 protected:
  // Writes 40 images with the brightness 5 i, and a table of them.
  std::string put_table(const std::string& header, const std::function<std::string(int)>& row) {
    std::string text = header + "\n";
    for (int i = 0; i < 40; ++i) {
      put(concat_to_string("photos/p", i, ".png"), 5 * i);
      text += concat_to_string("p", i, ",", row(i), "\n");
    }
    return write("labels.csv", text);
  }
  Images config(const Names& target) const {
    Images out = images("photos");
    out.labels = ImageLabels{.file = at("labels.csv"), .target = target};
    return out;
  }
};

TEST_F(ImageTables, NameTheClassesOfFiles) {
  put_table("id,source,breed",
            [](int i) { return concat_to_string("http://x/", i, ",", i % 2 ? "pug" : "beagle"); });
  for (const char* suffix : {"", ".png"}) {
    for (const char* path : {"", "id"}) {
      Images c = config({"breed"});
      c.labels->path = path;
      c.labels->suffix = suffix;
      const Splits data = c.load(0);
      EXPECT_EQ(data.class_names, (Names{"beagle", "pug"}));
      EXPECT_EQ(data.train->size(), 32);
      EXPECT_EQ(data.test->size(), 8);
      EXPECT_EQ(data.images->path_column, "id");
      EXPECT_TRUE(contains(data.report, "  beagle        16     4\n")) << data.report;
      EXPECT_TRUE(contains(data.report, "stratified by breed, seed 0")) << data.report;
      // Images and labels belong together.
      const Batch all = data.test->get(arange(8));
      for (int64_t k = 0; k < 8; ++k) {
        const double x = all.inputs[k].mean().item<double>();
        const double value = (x * data.images->std[0] + data.images->mean[0]) * 255 / 5;
        EXPECT_EQ(std::lround(value) % 2, all.targets[k].item<int64_t>());
      }
    }
  }
  EXPECT_EQ(config({"breed"}).files().size(), 2u);
  EXPECT_EQ(config({"breed"}).files()[1].parts.size(), 40u);
}

TEST_F(ImageTables, NameValuesAndSeveralTargets) {
  put_table("id,age,weight,is_dog,is_old", [](int i) {
    return concat_to_string(i, ".5,", 2 * i, ",", i % 2 ? "yes" : "no", ",", i / 20);
  });
  const Splits values = config({"age"}).load(0);
  EXPECT_EQ(values.task, Task::kRegression);
  EXPECT_EQ(values.outputs, 1);
  const Tensor y = values.train->get(arange(values.train->size())).targets;
  EXPECT_NEAR(y.mean().item<float>(), 0, 1e-5);
  EXPECT_TRUE(contains(values.report, "  age: values, 0.5 to 39.5\n")) << values.report;
  EXPECT_TRUE(contains(values.report, "at random, seed 0")) << values.report;
  const Splits both = config({"age", "weight"}).load(0);
  EXPECT_EQ(both.outputs, 2);
  ASSERT_EQ(both.several_targets.size(), 2u);
  EXPECT_EQ(both.train->get(tensor({0, 1})).targets.shape(), (Shape{2, 2}));
  const Splits labels = config({"is_dog", "is_old"}).load(0);
  ASSERT_EQ(labels.labels.size(), 2u);
  EXPECT_EQ(labels.class_names, (Names{"is_dog", "is_old"}));
  EXPECT_TRUE(contains(labels.report, "  is_dog: label, no: 20, yes: 20\n")) << labels.report;
}

TEST_F(ImageTables, FurtherTablesHaveTheSameColumns) {
  put_table("id,breed", [](int i) { return i % 2 ? "pug" : "beagle"; });
  Images c = config({"breed"});
  const Splits data = c.load(0);
  const std::string file = write("more.csv", "breed,id,other\npug,p3,x\nbeagle,p4,x\n");
  const DatasetPtr more = c.more(data, file);
  EXPECT_EQ(more->get(arange(2)).targets.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(c.kept(data, file).rows, (std::vector<Names>{{"p3"}, {"p4"}}));
  EXPECT_EQ(c.more(data, write("new.csv", "id\np5\n"))->fields(), Names{"inputs"});
  EXPECT_EQ(c.more(data, at("photos/p1.png"))->size(), 1);
  EXPECT_EQ(c.more(data, at("photos"))->size(), 40);
  EXPECT_EQ(c.kept(data, at("photos")).rows[0], Names{"p0.png"});
  EXPECT_TRUE(
      contains(refusal_of<InputError>([&] { (void)c.more(data, write("z.csv", "x\n1\n")); }),
               "z.csv: there is no column 'id' of file names"));
}

TEST_F(ImageTables, RowsOfOneFileAreOneSample) {
  put_table("id,breed", [](int i) { return i % 2 ? "pug" : "beagle"; });
  const std::string table = read_file(at("labels.csv"), "");
  write("labels.csv", table + "p3,pug\n./p4.png,beagle\n");
  const Splits data = config({"breed"}).load(0);
  EXPECT_EQ(data.train->size() + data.test->size(), 40);
  EXPECT_TRUE(contains(data.report, "dropped: 2 rows with the file of an earlier row\n"))
      << data.report;
  write("labels.csv", table + "p3,beagle\n");
  const std::string what = refusal_of<DataError>([&] { (void)config({"breed"}).load(0); });
  EXPECT_TRUE(contains(what, "labels.csv: two rows name ")) << what;
  EXPECT_TRUE(contains(what, "p3.png, with 'pug' and 'beagle' in column 'breed'; remove one"))
      << what;
}

TEST_F(ImageTables, GapsAreCounted) {
  put_table("id,breed", [](int i) { return i == 3 ? "" : i % 2 ? "pug" : "beagle"; });
  fs::remove(at("photos/p4.png"));
  Images c = config({"breed"});
  c.broken = "1";
  const Splits data = c.load(0);
  EXPECT_EQ(data.train->size() + data.test->size(), 38);
  EXPECT_TRUE(contains(data.report, "dropped: 1 row without a target\n")) << data.report;
  EXPECT_TRUE(contains(data.report, "photos/p4: the file is missing")) << data.report;
  c.broken = "0";
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)c.load(0); }),
                       "1 of 39 images are broken or missing"));
  struct Row {
    ImageLabels labels;
    const char* says;
  };
  const Row rows[] = {
      {{.file = at("labels.csv"), .target = {"bred"}}, "bred"},
      {{.file = at("labels.csv"), .path = "no", .target = {"breed"}}, "no"},
      {{.file = at("labels.csv"), .target = {"breed"}, .suffix = ".gif"}, "no column names files"},
      {{.file = at("none.csv"), .target = {"breed"}}, "none.csv"}};
  for (const Row& row : rows) {
    c.labels = row.labels;
    const std::string message = refusal_of<Error>([&] { (void)c.load(0); });
    EXPECT_TRUE(contains(message, row.says)) << message;
  }
}

}  // namespace
}  // namespace taper::v0::data

#endif
