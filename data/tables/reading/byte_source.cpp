#include "data/tables/reading/byte_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

#include <zlib.h>
#ifdef TAPER_WITH_ZSTD
#include <zstd.h>
#endif

#include "framework/io/archive.h"
#include "framework/io/input_file.h"

namespace taper::v0::data::reading {
namespace {

constexpr const char* kTable = "table";
constexpr size_t kPart = size_t(1) << 16;  // bytes that are read at once from compressed files

class PlainBytes final : public ByteSource {
 public:
  PlainBytes(const std::string& path, const char* what) : file_(path, what) { size = file_.size(); }
  size_t read(char* out, size_t most) override {
    const size_t n = file_.read(out, most);
    position_ += n;
    return n;
  }
  uint64_t position() const override { return position_; }

 private:
  InputFile file_;
  uint64_t position_ = 0;
};

// A compressed file. A derived class expands the bytes of `input_`.
class CompressedBytes : public ByteSource {
 public:
  CompressedBytes(const std::string& path, const char* kind, const char* what)
      : check_{path, "cannot decompress it"}, what_(what), file_(path, what), input_(kPart) {
    size = file_.size();
    compression = kind;
  }
  uint64_t position() const override { return position_; }

  size_t read(char* out, size_t most) override {
    size_t done = 0;
    while (done < most) {
      if (left_ == 0 && !is_at_end_) refill();
      if (left_ == 0 && is_between_frames()) break;
      // Even without new input there may be output that did not fit before.
      const size_t n = expand(out + done, most - done);
      const bool has_ended = n == 0 && left_ == 0 && is_at_end_ && !is_between_frames();
      check_(!has_ended, "it ends early, at byte ", position_, "; is it truncated?");
      done += n;
    }
    expanded_ += done;
    check_expansion(check_, what_, expanded_, position_);
    return done;
  }

  // Rejects data that expand by a ratio that no table or text has. A large file of one repeated row
  // has such a ratio.
  static void check_expansion(const FileCheck<>& check, const char* what, uint64_t expanded,
                              uint64_t read) {
    constexpr uint64_t kAlways = uint64_t(64) << 20, kMostOfOneByte = 500;
    check(expanded <= kAlways || expanded / kMostOfOneByte <= read, "its first ", read,
          " bytes expand to more than ", expanded >> 20, " MiB, which no ", what,
          " does; if it is one, decompress it first");
  }

 protected:
  // Expands some of the `left_` bytes at `next_`, and returns the number of bytes written.
  virtual size_t expand(char* out, size_t most) = 0;
  // Returns whether the file may end here.
  virtual bool is_between_frames() const = 0;

  const FileCheck<> check_;
  const char* next_ = nullptr;
  size_t left_ = 0;

 private:
  void refill() {
    left_ = file_.read(input_.data(), input_.size());
    next_ = input_.data();
    position_ += left_;
    is_at_end_ = left_ == 0;
  }

  const char* const what_;
  InputFile file_;
  std::vector<char> input_;
  uint64_t position_ = 0, expanded_ = 0;
  bool is_at_end_ = false;
};

// One or several gzip members, as gzip itself accepts them.
class GzipBytes final : public CompressedBytes {
 public:
  GzipBytes(const std::string& path, const char* what) : CompressedBytes(path, "gzip", what) {
    constexpr int kGzip = 16;  // added to the window bits: a gzip header is expected
    check_(inflateInit2(&stream_, MAX_WBITS + kGzip) == Z_OK, "zlib has no memory");
  }
  ~GzipBytes() override { inflateEnd(&stream_); }

 private:
  bool is_between_frames() const override { return is_done_; }
  size_t expand(char* out, size_t most) override {
    if (is_done_) {
      check_(inflateReset(&stream_) == Z_OK, "zlib cannot begin a further member");
      is_done_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next_));
    stream_.avail_in = uInt(left_);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = uInt(std::min(most, kPart));
    const auto wanted = size_t(stream_.avail_out);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    check_(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR,
           "its gzip data are damaged near byte ", position() - stream_.avail_in,
           stream_.msg ? std::string(" (") + stream_.msg + ")" : "");
    is_done_ = code == Z_STREAM_END;
    next_ += left_ - stream_.avail_in;
    left_ = stream_.avail_in;
    return wanted - stream_.avail_out;
  }

  z_stream stream_{};
  bool is_done_ = false;
};

#ifdef TAPER_WITH_ZSTD
class ZstdBytes final : public CompressedBytes {
 public:
  ZstdBytes(const std::string& path, const char* what)
      : CompressedBytes(path, "zstd", what), stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    check_(stream_ != nullptr, "zstd has no memory");
  }

 private:
  bool is_between_frames() const override { return is_done_; }
  size_t expand(char* out, size_t most) override {
    ZSTD_inBuffer from{next_, left_, 0};
    ZSTD_outBuffer to{out, most, 0};
    // Zstd refuses windows of more than 128 MiB by default, so that memory is bounded.
    const size_t code = ZSTD_decompressStream(stream_.get(), &to, &from);
    check_(!ZSTD_isError(code), "its zstd data are damaged near byte ", position() - left_, " (",
           ZSTD_getErrorName(code), ")");
    is_done_ = code == 0;
    next_ += from.pos;
    left_ -= from.pos;
    return to.pos;
  }

  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool is_done_ = false;
};
#endif

std::unique_ptr<ByteSource> open_zstd(const std::string& path, const char* what) {
#ifdef TAPER_WITH_ZSTD
  return std::make_unique<ZstdBytes>(path, what);
#else
  (void)what;
  throw InputError(path, ": Taper was built without zstd; decompress it: zstd -d FILE, or install ",
                   "libzstd-dev and build again with TAPER_ZSTD=ON");
#endif
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

// The only table in a zip archive, as a source of bytes.
class ZipBytes final : public ByteSource {
 public:
  explicit ZipBytes(const std::string& path)
      : check_{path, "cannot read it"}, archive_(path), entry_(archive_, only_table()) {
    size = InputFile(path, kTable).size();
    compression = "zip";
    name = archive_.entries()[only_table()].name;
  }
  uint64_t position() const override { return std::min<uint64_t>(expanded_, size); }
  size_t read(char* out, size_t most) override {
    const size_t done = entry_.read(out, most);
    expanded_ += done;
    CompressedBytes::check_expansion(check_, kTable, expanded_, size);
    return done;
  }

 private:
  size_t only_table() const {
    constexpr std::array kTables = {".csv", ".tsv", ".txt", ".dat", ".data", ".jsonl", ".ndjson"};
    std::vector<size_t> found;
    std::string names;
    for (size_t i = 0; i < archive_.entries().size(); ++i) {
      const std::string& entry = archive_.entries()[i].name;
      const std::string extension = lower(std::filesystem::path(entry).extension().string());
      // macOS adds a folder of metadata with the same names.
      if (entry.starts_with("__MACOSX") || !std::ranges::count(kTables, extension)) continue;
      found.push_back(i);
      if (found.size() <= 4) names += concat_to_string(names.empty() ? "" : ", ", entry);
    }
    check_(!found.empty(), "it is a zip archive without a file that ends in .csv, .tsv, .txt or ",
           ".jsonl");
    check_(found.size() == 1, "it is a zip archive of ", found.size(), " tables (", names,
           found.size() > 4 ? ", ..." : "", "); unpack it and name the files that you want");
    return found[0];
  }

  const FileCheck<> check_;
  ZipReader archive_;
  ZipEntryReader entry_;
  uint64_t expanded_ = 0;
};

// A format that cannot be read. It is recognized by its first bytes or by the extension.
struct OtherFormat {
  std::string_view name, magic, extension, advice;
};
constexpr std::string_view kOle("\xd0\xcf\x11\xe0", 4);
constexpr OtherFormat kOthers[] = {
    {"a Parquet file", "PAR1", ".parquet",
     "python3 -c \"import pandas; pandas.read_parquet('FILE').to_csv('table.csv', index=False)\""},
    {"an Excel workbook",
     {},
     ".xlsx",
     "libreoffice --convert-to csv FILE, or python3 -c \"import pandas; "
     "pandas.read_excel('FILE').to_csv('table.csv', index=False)\""},
    {"an Excel workbook", kOle, ".xls", "libreoffice --convert-to csv FILE"},
    {"an OpenDocument sheet", {}, ".ods", "libreoffice --convert-to csv FILE"},
    {"a Feather or Arrow file", "ARROW1", ".feather",
     "python3 -c \"import pandas; pandas.read_feather('FILE').to_csv('table.csv', index=False)\""},
    {"a Stata file", "<stata_dta>", ".dta",
     "python3 -c \"import pandas; pandas.read_stata('FILE').to_csv('table.csv', index=False)\""},
    {"an HDF5 file", "\x89HDF", ".h5",
     "python3 -c \"import pandas; pandas.read_hdf('FILE').to_csv('table.csv', index=False)\""},
    {"a SQLite database", "SQLite format 3", ".sqlite",
     "sqlite3 -header -csv FILE 'select * from TABLE' > table.csv"},
    {"an xz archive",
     "\xfd"
     "7zXZ",
     ".xz", "xz -dk FILE"},
    {"a bzip2 archive", "BZh", ".bz2", "bzip2 -dk FILE"},
    {"a 7-Zip archive", "7z\xbc\xaf", ".7z", "7z x FILE"},
    {"a tar archive", {}, ".tar", "tar -xf FILE"},
    {"a tar archive", {}, ".tgz", "tar -xf FILE"},
    {"a pickle",
     {},
     ".pkl",
     "python3 -c \"import pandas; pandas.read_pickle('FILE').to_csv('table.csv', index=False)\""},
};

[[noreturn]] void refuse(const std::string& path, const OtherFormat& format) {
  std::string advice(format.advice);
  const size_t file = advice.find("FILE");
  for (size_t at = file; at != std::string::npos; at = advice.find("FILE", at + path.size())) {
    advice.replace(at, 4, path);
  }
  throw InputError(path, ": this is ", format.name,
                   ", which Taper does not read; convert it: ", advice);
}

void refuse_other_formats(const std::string& path, std::string_view first) {
  const std::string extension = lower(std::filesystem::path(path).extension().string());
  for (const OtherFormat& format : kOthers) {
    const bool has_magic = !format.magic.empty() && first.starts_with(format.magic);
    if (has_magic || extension == format.extension) refuse(path, format);
  }
}

}  // namespace

std::unique_ptr<ByteSource> open_decompressed(const std::string& path, const char* what) {
  const std::string first = read_file(path, what, 4);
  std::unique_ptr<ByteSource> out;
  if (first.starts_with("\x1f\x8b")) {
    out = std::make_unique<GzipBytes>(path, what);
  } else if (first.starts_with("\x28\xb5\x2f\xfd")) {
    out = open_zstd(path, what);
  } else {
    out = std::make_unique<PlainBytes>(path, what);
  }
  out->name = path;
  return out;
}

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  const std::string first = read_file(path, kTable, 16);
  refuse_other_formats(path, first);
  const bool is_zip = first.starts_with("PK\3\4") || first.starts_with("PK\5\6");
  if (is_zip) return std::make_unique<ZipBytes>(path);
  return open_decompressed(path, kTable);
}

}  // namespace taper::v0::data::reading
