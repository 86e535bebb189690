#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "data/images/images.h"
#include "tests/data_files.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

Bytes idx(uint8_t type, const std::vector<uint32_t>& shape, const Bytes& data) {
  Bytes out{0, 0, type, static_cast<uint8_t>(shape.size())};
  for (const uint32_t size : shape) {
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<uint8_t>(size >> shift));
  }
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

Bytes gzip(const Bytes& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, content.size()));
  Bytes in = content;
  stream.next_in = in.data();
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes bytes_of(const Tensor& x) { return x.to_vector<uint8_t>(); }

Bytes text(std::string_view s) { return {s.begin(), s.end()}; }

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes without_last(Bytes bytes, size_t count) {
  bytes.resize(bytes.size() - count);
  return bytes;
}

Bytes counting(size_t count) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return out;
}

class IdxFiles : public ::testing::Test {
 protected:
  IdxFiles() {
    std::string name = (fs::temp_directory_path() / "idx_test_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    directory_ = name;
  }
  ~IdxFiles() override { fs::remove_all(directory_); }

  fs::path write(const std::string& name, const Bytes& bytes) const {
    const fs::path file = directory_ / name;
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return file;
  }

  fs::path directory_;
};

std::vector<int64_t> labels_of(const Batch& images) { return images.targets.to_vector<int64_t>(); }

// Expects that `message` is a single line that names `file` and contains all of `parts`.
void expect_names(const std::string& message, const fs::path& file,
                  const std::vector<std::string>& parts) {
  EXPECT_NE(message.find(file.string()), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "wanted: " << part << "\nin: " << message;
  }
}

TEST_F(IdxFiles, ReadsPlainAndGzipWhateverTheName) {
  const Bytes data = counting(6);
  for (const Bytes& file : {idx(8, {2, 3}, data), gzip(idx(8, {2, 3}, data))}) {
    for (const std::string name : {"a", "a.gz"}) {
      const Tensor array = read_idx(write(name, file));
      EXPECT_EQ(array.shape(), (Shape{2, 3}));
      EXPECT_EQ(bytes_of(array), data);
    }
  }
}

TEST_F(IdxFiles, ReadsManyBuffers) {
  const Bytes data = counting(3'000'001);
  const Bytes file = idx(8, {3'000'001}, data);
  EXPECT_EQ(bytes_of(read_idx(write("plain", file))), data);
  EXPECT_EQ(bytes_of(read_idx(write("packed", gzip(file)))), data);
}

TEST_F(IdxFiles, ReadsGzipOfSeveralMembers) {
  const Bytes file = joined(gzip(idx(8, {6}, {1, 2})), gzip({3, 4, 5, 6}));
  EXPECT_EQ(bytes_of(read_idx(write("members", file))), (Bytes{1, 2, 3, 4, 5, 6}));
}

TEST_F(IdxFiles, ASizeOfZeroIsAnEmptyArray) {
  const Tensor array = read_idx(write("none", idx(8, {0, 0xffffffff, 28}, {})));
  EXPECT_EQ(array.shape(), (Shape{0, 0xffffffff, 28}));
}

TEST_F(IdxFiles, RefusesWhatIsNotAWholeUnsignedByteFile) {
  const Bytes good = idx(8, {2, 3}, counting(6));
  const Bytes packed = gzip(idx(8, {200}, counting(200)));
  Bytes bad_checksum = packed;
  bad_checksum[bad_checksum.size() - 6] ^= 1;
  const struct {
    std::string name;
    Bytes bytes;
    std::vector<std::string> parts;
  } cases[] = {
      {"empty", {}, {"empty file"}},
      {"empty_gzip", gzip({}), {"empty gzip"}},
      {"html", text("<!DOCTYPE html><html>"), {"3c 21 44 4f", "HTML"}},
      {"png", text("\x89PNG\r\n\x1a\n"), {"89 50 4e 47 0d 0a 1a 0a", "PNG"}},
      {"zip", text("PK\x03\x04zip"), {"zip"}},
      {"npy", text("\x93NUMPY\x01"), {"npy"}},
      {"lfs", text("version https://git-lfs.github.com/spec/v1\n"), {"git lfs pull"}},
      {"csv", text("1,2,3\n4,5,6\n"), {"31 2c 32", "text file"}},
      {"one_letter", text("x"), {"78"}},
      {"twice", gzip(gzip(good)), {"gzip within gzip"}},
      {"binary", {0xde, 0xad, 0xbe, 0xef}, {"de ad be ef"}},
      {"odd_type", idx(7, {1}, {1}), {"00 00 07 01"}},
      {"no_dimensions", {0, 0, 8, 0}, {"number of dimensions", "00 00 08 00"}},
      {"signed", idx(9, {1}, {1}), {"unsigned byte (0x08)", "0x09"}},
      {"short", idx(0x0b, {1}, {1, 2}), {"0x0b"}},
      {"int", idx(0x0c, {1}, {1}), {"0x0c"}},
      {"float", idx(0x0d, {1}, {1}), {"0x0d"}},
      {"double", idx(0x0e, {1}, {1}), {"0x0e"}},
      {"magic_cut", {0, 0, 8}, {"header is cut off", "4 bytes, got 3"}},
      {"header_cut", without_last(idx(8, {2, 3, 4}, {}), 5), {"need 16 bytes, got 11"}},
      {"data_cut", without_last(good, 2), {"(2, 3) needs 6 bytes, got 4"}},
      {"data_cut_packed", gzip(without_last(good, 2)), {"(2, 3) needs 6 bytes, got 4"}},
      {"trailing", joined(good, {9, 9}), {"needs 6 bytes of data, got 8 (2 left over)"}},
      {"trailing_packed", gzip(joined(good, {9})), {"got 7 (1 left over)"}},
      {"checksum", bad_checksum, {"gzip stream is damaged"}},
      {"trailer_cut", without_last(packed, 1), {"gzip stream is cut off"}},
      {"gzip_cut", without_last(packed, 20), {"gzip stream is cut off"}},
      {"overflow", idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, {1}), {"overflows"}},
      {"nothing", idx(8, {0, 0xffffffff, 0xffffffff, 0xffffffff}, {}), {"overflows"}},
      {"nine", idx(8, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}), {"more than 8 dimensions: 9"}},
      {"absurd", idx(8, {0x7fffffff, 0x7fffffff}, {1}), {"4611686014132420609 bytes, got 1"}},
      {"absurd_packed", gzip(idx(8, {0xffffffff}, {1})), {"4294967295 bytes, got 1"}},
  };
  for (const auto& c : cases) {
    const fs::path file = write(c.name, c.bytes);
    expect_names(refusal_of<InputError>([&] { read_idx(file); }), file, c.parts);
  }
}

TEST_F(IdxFiles, AShortenedOrBitFlippedGzipNeverGivesOtherData) {
  const Bytes data = counting(40);
  const Bytes packed = gzip(idx(8, {40}, data));
  for (size_t length = 0; length < packed.size(); ++length) {
    const fs::path file = write("cut", without_last(packed, packed.size() - length));
    EXPECT_NE(refusal_of<InputError>([&] { read_idx(file); }), "accepted") << length;
  }
  // Some bits have no meaning: the header's time, the padding before a stored block.
  for (size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    Bytes flipped = packed;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const fs::path file = write("flipped", flipped);
    refusal_of<InputError>([&] { EXPECT_EQ(bytes_of(read_idx(file)), data) << bit; });
  }
}

// The data are a thousand times as large as the file. Decompression stops early in both cases.
TEST_F(IdxFiles, AGzipThatGrowsBeyondItsHeaderIsRefusedWithoutBeingUnpacked) {
  const Bytes zeros(20 << 20);
  const fs::path more = write("more", gzip(joined(idx(8, {6}, {}), zeros)));
  expect_names(refusal_of<InputError>([&] { read_idx(more); }), more,
               {"needs 6 bytes", "1048576 or more left over"});
  const fs::path less = write("less", gzip(joined(idx(8, {0xffffffff}, {}), zeros)));
  expect_names(refusal_of<InputError>([&] { read_idx(less); }), less,
               {"4294967295 bytes, got 1048576 or more"});
}

TEST_F(IdxFiles, RefusesAMissingFileAndADirectory) {
  const fs::path missing = directory_ / "missing";
  expect_names(refusal_of<InputError>([&] { read_idx(missing); }), missing, {"No such file"});
  expect_names(refusal_of<InputError>([&] { read_idx(directory_); }), directory_, {"directory"});
}

TEST_F(IdxFiles, ImagesPairPixelsWithLabels) {
  const fs::path images = write("images", idx(8, {3, 2, 1}, {1, 2, 3, 4, 5, 6}));
  const Batch read = read_idx_images(images, write("labels", idx(8, {3}, {9, 0, 4})));
  EXPECT_EQ(read.inputs.shape(), (Shape{3, 1, 2, 1}));
  EXPECT_EQ(read.inputs.to_vector<uint8_t>(), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(labels_of(read), (std::vector<int64_t>{9, 0, 4}));
}

TEST_F(IdxFiles, RefusesImagesAndLabelsThatDoNotFit) {
  const fs::path images = write("images", idx(8, {3, 1, 1}, {1, 2, 3}));
  const fs::path labels = write("labels", idx(8, {3}, {0, 1, 2}));
  const fs::path two = write("two", idx(8, {2}, {0, 1}));
  const fs::path big = write("big", idx(8, {3}, {0, 10, 2}));
  const fs::path none = write("none", idx(8, {0, 28, 28}, {}));
  expect_names(refusal_of<InputError>([&] { read_idx_images(labels, images); }), labels,
               {"3 dimensions", "(3)"});
  expect_names(refusal_of<InputError>([&] { read_idx_images(images, images); }), images,
               {"1 dimension", "(3, 1"});
  expect_names(refusal_of<InputError>([&] { read_idx_images(none, labels); }), none, {"no images"});
  expect_names(refusal_of<InputError>([&] { read_idx_images(images, two); }), two,
               {"expected 3 labels", images.string(), "got 2"});
  expect_names(refusal_of<InputError>([&] { read_idx_images(images, big); }), big,
               {"record 1", "0 .. 9", "got 10"});
  expect_names(refusal_of<InputError>([&] { read_idx_images(images, labels, 2); }), labels,
               {"record 2", "0 .. 1", "got 2"});
  EXPECT_EQ(labels_of(read_idx_images(images, big, 11))[1], 10);
}

TEST_F(IdxFiles, MnistIsFoundUnderEachOfItsNames) {
  for (const std::string separator : {"-", "."}) {
    for (const std::string ending : {"", ".gz"}) {
      const auto pack = [&](const Bytes& b) { return ending.empty() ? b : gzip(b); };
      const fs::path images =
          write("train-images" + separator + "idx3-ubyte" + ending, pack(idx(8, {1, 1, 1}, {5})));
      const fs::path labels =
          write("train-labels" + separator + "idx1-ubyte" + ending, pack(idx(8, {1}, {7})));
      EXPECT_EQ(labels_of(load_mnist(directory_, true)), std::vector<int64_t>{7});
      fs::remove(images);
      fs::remove(labels);
    }
  }
  write("t10k-images-idx3-ubyte", idx(8, {1, 1, 1}, {5}));
  write("t10k-labels.idx1-ubyte.gz", gzip(idx(8, {1}, {3})));
  EXPECT_EQ(labels_of(load_mnist(directory_, false)), std::vector<int64_t>{3});
}

TEST_F(IdxFiles, MissingMnistSaysWhatWasLookedForAndHowToGetIt) {
  const std::vector<std::string> source{
      "https://ossci-datasets.s3.amazonaws.com/mnist/, and set data.root=DIR"};
  const fs::path nowhere = directory_ / "nowhere";
  const std::string no_root = refusal_of<InputError>([&] { load_mnist(nowhere, true); });
  expect_names(no_root, nowhere, source);
  expect_names(no_root, nowhere,
               {"no such directory", "train-images-idx3-ubyte,", "train-images.idx3-ubyte,",
                "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte.gz"});
  write("t10k-images-idx3-ubyte", idx(8, {1, 1, 1}, {5}));
  const std::string no_labels = refusal_of<InputError>([&] { load_mnist(directory_, false); });
  expect_names(no_labels, directory_, source);
  expect_names(no_labels, directory_, {"t10k-labels-idx1-ubyte,", "t10k-labels.idx1-ubyte.gz"});
}

}  // namespace
}  // namespace taper::v0::data
