#include "framework/io/archive.h"

#include <memory>

#include "framework/base/error.h"
#include "framework/host/atomic_file.h"

#ifdef TAPER_WITH_ZIP
#include <unistd.h>
#include <zip.h>

namespace taper::v0 {
namespace {

// Upper bound of Deflate's compression ratio (https://zlib.net/zlib_tech.html).
constexpr uint64_t kMostOfOneByte = 1032;

std::string text_of(zip_error_t* error) {
  std::string text = zip_error_strerror(error);
  zip_error_fini(error);
  return text;
}

}  // namespace

bool has_zip() { return true; }

struct ZipReader::Handle {
  zip_t* zip = nullptr;
  ~Handle() {
    if (zip) zip_discard(zip);
  }
};

ZipReader::ZipReader(const std::string& path)
    : check_{path, "not a valid zip archive"}, handle_(std::make_unique<Handle>()) {
  const InputFile file(path, "");
  const int copy = ::dup(file.descriptor());  // libzip closes the descriptor that it is given
  int code = 0;
  handle_->zip = copy < 0 ? nullptr : zip_fdopen(copy, 0, &code);
  if (!handle_->zip) {
    if (copy >= 0) ::close(copy);
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    check_.refuse(text_of(&error) + " (is the file truncated, or of another format?)");
  }
  uint64_t total = 0;
  const zip_int64_t count = zip_get_num_entries(handle_->zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    check_(zip_stat_index(handle_->zip, zip_uint64_t(i), 0, &stat) == 0 && stat.name, "its entry ",
           i, " cannot be read");
    const bool is_stored = stat.comp_method == ZIP_CM_STORE;
    check_(stat.comp_size <= file.size() - total &&
               stat.size <= (is_stored ? stat.comp_size : stat.comp_size * kMostOfOneByte),
           "'", stat.name, "' has ", stat.size, " bytes, more than the file can hold");
    total += stat.comp_size;
    entries_.push_back({stat.name, stat.size});
  }
}

ZipReader::~ZipReader() = default;

struct ZipEntryReader::Handle {
  const FileCheck<> check;
  const std::string name;
  const uint64_t nbytes;
  zip_file_t* file;
  uint64_t done = 0;
  ~Handle() {
    if (file) zip_fclose(file);
  }
};

ZipEntryReader::ZipEntryReader(const ZipReader& archive, size_t index) {
  const Archive::Entry& entry = archive.entries().at(index);
  zip_t* zip = archive.handle_->zip;
  handle_.reset(
      new Handle{archive.check_, entry.name, entry.nbytes, zip_fopen_index(zip, index, 0)});
  if (!handle_->file) archive.check_.refuse("'", entry.name, "': ", zip_strerror(zip));
}

ZipEntryReader::~ZipEntryReader() = default;

size_t ZipEntryReader::read(void* out, size_t most) {
  Handle& entry = *handle_;
  size_t done = 0;
  // libzip compares the checksum in the read call that reaches the end.
  while (done < most) {
    const zip_int64_t n = zip_fread(entry.file, static_cast<char*>(out) + done, most - done);
    if (n < 0) entry.check.refuse("'", entry.name, "': ", zip_file_strerror(entry.file));
    done += size_t(n);
    entry.done += uint64_t(n);
    if (n > 0) continue;
    entry.check(entry.done == entry.nbytes, "'", entry.name, "': expected ", entry.nbytes,
                " bytes, got ", entry.done);
    break;
  }
  return done;
}

StoragePtr ZipReader::read(size_t index) {
  const Entry& entry = entries_.at(index);
  ZipEntryReader reader(*this, index);
  StoragePtr storage = allocate(entry.nbytes, Device());
  const size_t done = reader.read(storage->data, entry.nbytes);
  char beyond;
  const size_t more = done < entry.nbytes ? 0 : reader.read(&beyond, 1);
  check_(done == entry.nbytes && more == 0, "'", entry.name, "': expected ", entry.nbytes,
         " bytes, got ", more > 0 ? "more" : concat_to_string(done));
  return storage;
}

void write_zip(const std::string& path, const std::vector<ZipContent>& contents) {
  zip_error_t error;
  zip_error_init(&error);
  const auto fail = [&] { throw Error(path, ": cannot make a zip archive: ", text_of(&error)); };
  const auto free = [](zip_source_t* s) { zip_source_free(s); };
  const std::unique_ptr<zip_source_t, decltype(free)> memory(
      zip_source_buffer_create(nullptr, 0, 0, &error), free);
  if (!memory) fail();
  zip_source_keep(memory.get());  // closing the archive releases one reference
  zip_t* zip = zip_open_from_source(memory.get(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!zip) {
    zip_source_free(memory.get());
    fail();
  }
  bool made = true;
  for (const ZipContent& c : contents) {
    zip_source_t* source = zip_source_buffer(zip, c.bytes.data(), c.bytes.size(), 0);
    const zip_int64_t index = zip_file_add(zip, c.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(source);
    made = made && index >= 0 &&
           zip_set_file_compression(zip, zip_uint64_t(index), ZIP_CM_STORE, 0) == 0;
  }
  if (!made || zip_close(zip) != 0) {
    zip_error_fini(&error);
    zip_error_init_with_code(&error, zip_error_code_zip(zip_get_error(zip)));
    zip_discard(zip);
    fail();
  }
  zip_stat_t stat;
  if (zip_source_stat(memory.get(), &stat) != 0 || zip_source_open(memory.get()) != 0) fail();
  AtomicFile file(path, stat.size);
  std::vector<char> part(1 << 20);
  zip_int64_t n;
  while ((n = zip_source_read(memory.get(), part.data(), part.size())) > 0) {
    file.write(part.data(), uint64_t(n));
  }
  zip_source_close(memory.get());
  if (n < 0) fail();
  file.finish();
}

}  // namespace taper::v0
#else
namespace taper::v0 {
namespace {

constexpr const char* kWithout =
    ": Taper was built without libzip, which zip archives and files of torch.save need; install "
    "libzip-dev and build again with TAPER_ZIP=ON, or save tensors as safetensors";

}  // namespace

bool has_zip() { return false; }
struct ZipReader::Handle {};
ZipReader::ZipReader(const std::string& path) { throw Error(path + kWithout); }
ZipReader::~ZipReader() = default;
StoragePtr ZipReader::read(size_t) { throw Error(check_.path + kWithout); }
struct ZipEntryReader::Handle {};
ZipEntryReader::ZipEntryReader(const ZipReader&, size_t) {}
ZipEntryReader::~ZipEntryReader() = default;
size_t ZipEntryReader::read(void*, size_t) { return 0; }
void write_zip(const std::string& path, const std::vector<ZipContent>&) {
  throw NotImplementedError(path + kWithout);
}

}  // namespace taper::v0
#endif
