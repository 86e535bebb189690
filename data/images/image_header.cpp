#include "data/images/image_header.h"

#include <algorithm>
#include <cstddef>

#include "framework/base/error.h"
#include "framework/io/input_file.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n", kJpegStart = "\xff\xd8\xff";

// Reads integers from bytes. Reading past the end gives 0 and sets is_short().
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes, bool is_little = false)
      : bytes_(bytes), is_little_(is_little) {}

  uint32_t number(size_t at, size_t count) {
    if (at > bytes_.size() || count > bytes_.size() - at) {
      is_short_ = true;
      return 0;
    }
    uint32_t out = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t from = is_little_ ? at + count - 1 - i : at + i;
      out = out << 8 | static_cast<unsigned char>(bytes_[from]);
    }
    return out;
  }
  bool is_short() const { return is_short_; }

 private:
  std::string_view bytes_;
  bool is_little_, is_short_ = false;
};

// Returns the orientation in a block of EXIF, which begins with the header of TIFF; 1 if it has
// none or is damaged.
int orientation_in(std::string_view tiff) {
  constexpr uint32_t kTag = 0x0112, kShort = 3;
  if (!tiff.starts_with("II") && !tiff.starts_with("MM")) return 1;
  ByteReader in(tiff, tiff.starts_with("II"));
  if (in.number(2, 2) != 42) return 1;
  const size_t directory = in.number(4, 4);
  const size_t entries = in.number(directory, 2);
  for (size_t i = 0; i < entries && !in.is_short(); ++i) {
    const size_t at = directory + 2 + 12 * i;
    if (in.number(at, 2) != kTag || in.number(at + 2, 2) != kShort) continue;
    const uint32_t value = in.number(at + 8, 2);
    return value >= 1 && value <= 8 ? int(value) : 1;
  }
  return 1;
}

// Chunks: length, type, data, checksum. IHDR is the first. eXIf comes before the pixels or not at
// all, as far as this reader is concerned.
std::optional<ImageHeader> png_header(std::string_view bytes) {
  constexpr uint32_t kColor = 2;
  ByteReader in(bytes);
  ImageHeader out;
  out.width = in.number(16, 4);
  out.height = in.number(20, 4);
  out.is_gray = (in.number(25, 1) & kColor) == 0;
  if (in.is_short() || bytes.substr(12, 4) != "IHDR") return std::nullopt;
  for (size_t at = 8; at + 8 <= bytes.size();) {
    const size_t length = in.number(at, 4);
    const std::string_view type = bytes.substr(at + 4, 4);
    if (type == "IDAT" || type == "IEND") return out;
    if (length > bytes.size() - at - 8) break;
    if (type == "eXIf") out.orientation = orientation_in(bytes.substr(at + 8, length));
    at += length + 12;
  }
  return std::nullopt;
}

// A segment has a marker, a length and data. The size of the image is in a "start of frame", which
// is one of the markers C0 to CF without C4, C8 and CC.
std::optional<ImageHeader> jpeg_header(std::string_view bytes) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  ByteReader in(bytes);
  ImageHeader out;
  for (size_t at = 2; at + 4 <= bytes.size();) {
    if (in.number(at, 1) != 0xFF) return std::nullopt;
    const uint32_t marker = in.number(at + 1, 1);
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {  // without data
      at += 2;
      continue;
    }
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      out.height = in.number(at + 5, 2);
      out.width = in.number(at + 7, 2);
      out.is_gray = in.number(at + 9, 1) == 1;
      return in.is_short() ? std::nullopt : std::optional(out);
    }
    const size_t length = in.number(at + 2, 2);
    if (length < 2 || marker == 0xD9 || marker == 0xDA) return std::nullopt;
    const std::string_view segment = bytes.substr(at + 4, length - 2);
    if (marker == 0xE1 && segment.starts_with(kExif)) {
      out.orientation = orientation_in(segment.substr(kExif.size()));
    }
    at += 2 + length;
  }
  return std::nullopt;
}

struct OtherFormat {
  const char *name, *extension, *command;
};
// Formats that Taper does not read. The commands are those of Debian's packages.
constexpr const char* kMagick = "`apt install imagemagick; mogrify -format png ";
constexpr OtherFormat kOthers[] = {
    {"WebP", ".webp", kMagick},         {"GIF", ".gif", kMagick},
    {"BMP", ".bmp", kMagick},           {"TIFF", ".tif", kMagick},
    {"TIFF", ".tiff", kMagick},         {"JPEG 2000", ".jp2", kMagick},
    {"HEIC or AVIF", ".avif", nullptr}, {"HEIC or AVIF", ".heic", nullptr},
    {"HEIC or AVIF", ".heif", nullptr}};

}  // namespace

std::optional<ImageHeader> image_header(std::string_view bytes) {
  if (bytes.starts_with(kPngStart)) return png_header(bytes);
  if (bytes.starts_with(kJpegStart)) return jpeg_header(bytes);
  return std::nullopt;
}

std::string name_of_other_format(std::string_view bytes) {
  const auto has = [&](size_t at, std::string_view text) {
    return bytes.size() >= at && bytes.substr(at).starts_with(text);
  };
  if (has(0, "RIFF") && has(8, "WEBP")) return "WebP";
  if (has(0, "GIF8")) return "GIF";
  if (has(0, "BM")) return "BMP";
  if (has(0, std::string_view("II*\0", 4)) || has(0, std::string_view("MM\0*", 4))) return "TIFF";
  if (has(4, "jP  ")) return "JPEG 2000";
  if (has(4, "ftyp")) return "HEIC or AVIF";
  return "";
}

std::string conversion_command(const std::string& extension) {
  const auto* found = std::ranges::find(kOthers, extension, &OtherFormat::extension);
  if (found == std::end(kOthers)) return "";
  if (found->command != nullptr) return concat_to_string(found->command, "*", extension, "`");
  return concat_to_string("`apt install libheif-examples; for f in *", extension,
                          "; do heif-convert \"$f\" \"${f%.*}.png\"; done`");
}

void refuse_image_format(std::string_view bytes, const std::string& name) {
  if (bytes.empty()) throw InputError(name, ": the file is empty");
  const std::string other = name_of_other_format(bytes);
  if (other.empty()) throw InputError(name, ": neither PNG nor JPEG");
  const auto* found = std::ranges::find(kOthers, other, &OtherFormat::name);
  const std::string command = conversion_command(found->extension);
  throw InputError(name, ": a ", other, " image, while Taper reads PNG and JPEG; ", command,
                   " converts such files");
}

ImageHeader read_image_header(const fs::path& file) {
  constexpr size_t kUsually = 1 << 16;
  const std::string name = file.string();
  std::string bytes = read_file(name, "image", kUsually);
  std::optional<ImageHeader> out = image_header(bytes);
  if (!out && bytes.size() == kUsually) out = image_header(bytes = read_file(name, "image"));
  if (!out && !bytes.starts_with(kPngStart) && !bytes.starts_with(kJpegStart)) {
    refuse_image_format(bytes, name);
  }
  require<InputError>(out.has_value(), name, ": the ", bytes[0] == '\xff' ? "JPEG" : "PNG",
                      " image is damaged or cut off: its header is incomplete");
  require<InputError>(out->height > 0 && out->width > 0, name, ": the header claims ", out->width,
                      "x", out->height, " pixels");
  return *out;
}

}  // namespace taper::v0::data
