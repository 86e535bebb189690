// Image files for tests, encoded by the formats' own libraries.
#pragma once

#ifdef TAPER_WITH_IMAGES
#include <cstdio>
#include <cstdlib>
#include <string>

#include "autograd/ops/shape_ops.h"
#include "framework/tensor/tensor.h"

// This header must follow <cstdio>.
#include <jpeglib.h>

namespace taper::v0 {

// Encodes uint8 [C, H, W] with little loss.
inline std::string jpeg_of(const Tensor& x, J_COLOR_SPACE space) {
  const Tensor rows = x.permute({1, 2, 0}).contiguous();
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_height = JDIMENSION(rows.size(0));
  jpeg.image_width = JDIMENSION(rows.size(1));
  jpeg.input_components = int(rows.size(2));
  jpeg.in_color_space = space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = rows.data<uint8_t>() + jpeg.next_scanline * size_t(rows.size(1) * rows.size(2));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string file(reinterpret_cast<char*>(out), size);
  std::free(out);
  return file;
}

}  // namespace taper::v0
#endif
