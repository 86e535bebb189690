#include "data/images/codecs.h"

#ifdef TAPER_WITH_IMAGES
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>
// This header must follow jpeglib.h.
#include <jerror.h>
#include <png.h>
#endif

namespace taper::v0::data {

#ifdef TAPER_WITH_IMAGES
namespace {

// kMostPacked: no format stores more than this number of bytes of pixels in one byte. kMostPixels:
// the maximum number of pixels of an image.
constexpr int64_t kMostPacked = 4096, kMostPixels = int64_t(1) << 28;

// denominator: by which the size in the header was divided.
void allocate(Pixels& out, std::string_view file, const std::string& name, int denominator = 1) {
  const int64_t pixels = out.height * out.width;  // each below 2^31
  require<InputError>(
      pixels <= kMostPixels && pixels * out.channels <= kMostPacked * std::ssize(file), name,
      ": the header claims ", denominator > 1 ? "about " : "", out.width * denominator, "x",
      out.height * denominator, " pixels, more than a file of ", file.size(), " bytes can hold");
  out.bytes.resize(size_t(pixels * out.channels));
}

// Converts RGB to gray, without a gamma correction.
Pixels grey_of(const Pixels& in) {
  if (in.channels == 1) return in;
  Pixels out{in.height, in.width, 1};
  for (size_t i = 0; i < in.bytes.size(); i += 3) {
    const int sum = 299 * in.bytes[i] + 587 * in.bytes[i + 1] + 114 * in.bytes[i + 2];
    out.bytes.push_back(uint8_t((sum + 500) / 1000));
  }
  return out;
}

// Both libraries report errors by longjmp, which skips the destructors of the frames in between.
// Therefore every step that may fail uses only data of its caller.
struct Reader {
  const char* format;
  const std::string& name;
  char why[JMSG_LENGTH_MAX] = "";
  std::jmp_buf at_error{};
};

void attempt(Reader& r, const auto& step) {
  if (setjmp(r.at_error)) {
    throw InputError(r.name, ": the ", r.format, " image is damaged or cut off: ", r.why);
  }
  step();
}

// --- PNG ---

struct PngReader : Reader {
  std::string_view left;
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_png_error(png_structp png, png_const_charp text) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader.why, sizeof reader.why, "%s", text);
  std::longjmp(reader.at_error, 1);
}
void on_png_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep out, size_t count) {
  std::string_view& left = static_cast<PngReader*>(png_get_io_ptr(png))->left;
  if (count > left.size()) png_error(png, "the file ends too early");
  std::memcpy(out, left.data(), count);
  left.remove_prefix(count);
}

void read_png_header(PngReader& r, ImageMode mode) {
  png_set_read_fn(r.png, &r, read_png_bytes);
  png_read_info(r.png, r.info);
  const int color = png_get_color_type(r.png, r.info);
  png_set_scale_16(r.png);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r.png);
  png_set_expand_gray_1_2_4_to_8(r.png);
  if (png_get_valid(r.png, r.info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(r.png);
  if (mode != ImageMode::kUnchanged) png_set_strip_alpha(r.png);
  const bool is_grey = !(color & PNG_COLOR_MASK_COLOR);
  if (mode == ImageMode::kRgb && is_grey) png_set_gray_to_rgb(r.png);
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
}

// --- JPEG ---

struct JpegReader : Reader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};

  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

void on_jpeg_error(j_common_ptr jpeg) {
  auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader.why);
  std::longjmp(reader.at_error, 1);
}

// Converts a warning to an error if a part of the image is missing. libjpeg only warns of a
// truncated or damaged file, and fills the missing part with gray. Other warnings concern markers
// that readers ignore.
void on_jpeg_message(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level >= 0) return;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC) {
    on_jpeg_error(jpeg);
  }
}

void read_jpeg_header(JpegReader& r, std::string_view file, ImageMode mode, int denominator) {
  jpeg_create_decompress(&r.jpeg);
  jpeg_mem_src(&r.jpeg, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&r.jpeg, TRUE);
  const int channels = r.jpeg.num_components;
  const bool is_grey = mode == ImageMode::kGray || (mode == ImageMode::kUnchanged && channels == 1);
  r.jpeg.out_color_space = channels == 4 ? JCS_CMYK : is_grey ? JCS_GRAYSCALE : JCS_RGB;
  r.jpeg.scale_num = 1;
  r.jpeg.scale_denom = unsigned(denominator);
  jpeg_calc_output_dimensions(&r.jpeg);
}

// Converts CMYK, which Adobe's programs store inverted.
Pixels of_cmyk(const Pixels& in, bool is_inverted) {
  Pixels out{in.height, in.width, 3};
  for (size_t i = 0; i < in.bytes.size(); i += 4) {
    const auto light = [&](size_t c) {
      return is_inverted ? in.bytes[i + c] : 255 - in.bytes[i + c];
    };
    for (size_t c = 0; c < 3; ++c) out.bytes.push_back(uint8_t((light(c) * light(3) + 127) / 255));
  }
  return out;
}

}  // namespace

Pixels decode_png(std::string_view file, ImageMode mode, const std::string& name) {
  PngReader r{{"PNG", name}, file};
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_png_error, on_png_warning);
  if (r.png) r.info = png_create_info_struct(r.png);
  if (!r.info) throw OutOfMemoryError(name, ": no memory for libpng");
  attempt(r, [&] { read_png_header(r, mode); });
  Pixels out{png_get_image_height(r.png, r.info), png_get_image_width(r.png, r.info),
             png_get_channels(r.png, r.info)};
  allocate(out, file, name);
  std::vector<png_bytep> rows(size_t(out.height), nullptr);
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = &out.bytes[y * size_t(out.width * out.channels)];
  }
  attempt(r, [&] {
    png_read_image(r.png, rows.data());
    png_read_end(r.png, nullptr);
  });
  return mode == ImageMode::kGray ? grey_of(out) : out;
}

Pixels decode_jpeg(std::string_view file, ImageMode mode, const std::string& name,
                   int denominator) {
  JpegReader r{{"JPEG", name}};
  r.jpeg.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = on_jpeg_error;
  r.errors.emit_message = on_jpeg_message;
  r.jpeg.client_data = &r;
  attempt(r, [&] { read_jpeg_header(r, file, mode, denominator); });
  Pixels out{r.jpeg.output_height, r.jpeg.output_width, r.jpeg.output_components};
  allocate(out, file, name, denominator);
  attempt(r, [&] {
    jpeg_start_decompress(&r.jpeg);
    while (r.jpeg.output_scanline < r.jpeg.output_height) {
      JSAMPROW row = &out.bytes[r.jpeg.output_scanline * size_t(out.width * out.channels)];
      jpeg_read_scanlines(&r.jpeg, &row, 1);
    }
    jpeg_finish_decompress(&r.jpeg);
  });
  if (out.channels == 4) out = of_cmyk(out, r.jpeg.saw_Adobe_marker);
  return mode == ImageMode::kGray ? grey_of(out) : out;
}

std::string encode_png(const Pixels& pixels) {
  static constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                             PNG_FORMAT_RGBA};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = png_uint_32(pixels.height);
  image.width = png_uint_32(pixels.width);
  image.format = kFormats[pixels.channels - 1];
  std::string out;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  out.resize(size);
  require(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.bytes.data(), 0, nullptr),
          "write_png: ", image.message);
  out.resize(size);
  return out;
}

#else

namespace {
[[noreturn]] void refuse(const std::string& name) {
  throw Error(name,
              ": this build of Taper reads and writes no PNG and JPEG images: install "
              "libpng-dev and libjpeg-dev, and configure it again with -DTAPER_IMAGES=ON");
}
}  // namespace

Pixels decode_png(std::string_view, ImageMode, const std::string& name) { refuse(name); }
Pixels decode_jpeg(std::string_view, ImageMode, const std::string& name, int) { refuse(name); }
std::string encode_png(const Pixels&) { refuse("write_png"); }

#endif

}  // namespace taper::v0::data
