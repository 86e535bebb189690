// Windows of series as samples: the values before, what is known of the steps after, and the values
// after.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/metrics.h"
#include "data/series/series_encoding.h"
#include "data/series/series_grid.h"

namespace taper::v0::data {

// A window: the number of its series and its first step.
struct Window {
  int64_t series, first;
};

// A sample is [width] float32 (SeriesEncoding::width()), its targets are [horizon] float32, both in
// the scale of the series. If has_scales, Batch::others[0] has the scale of each sample, [N, 3]
// float64: mean, standard deviation, and the number by which MASE divides.
class SeriesDataset : public Dataset {
 public:
  // `scales` has the scale of each series of the grid.
  SeriesDataset(std::shared_ptr<const SeriesGrid> grid, std::shared_ptr<const SeriesEncoding> how,
                std::vector<SeriesScale> scales, std::vector<Window> windows, bool has_scales);

  int64_t size() const override { return std::ssize(windows_); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  size_t nbytes() const override;
  std::vector<std::string> fields() const override;

  // Returns the errors of the last value and, if there is a season, of the value one season ago,
  // on all windows.
  std::vector<Baseline> baselines() const;
  const std::vector<Window>& windows() const { return windows_; }

 private:
  std::shared_ptr<const SeriesGrid> grid_;
  std::shared_ptr<const SeriesEncoding> how_;
  std::vector<SeriesScale> scales_;
  std::vector<Window> windows_;
  bool has_scales_;
};

// Returns the baselines of a set of series; none for another set.
std::vector<Baseline> baselines_of(const Dataset& set);

// Writes the features of a window, [encoding.width()]. The series has `past` values from `first`
// on, and known features of the horizon.
void write_features(const OneSeries& series, const SeriesEncoding& encoding,
                    const SeriesScale& scale, int64_t first, std::span<float> out);

// Returns the scales of the series of a grid: those of the encoding by name. A series that the
// training file did not have is scaled by its first `past` values.
std::vector<SeriesScale> scales_of(const SeriesGrid& grid, const SeriesEncoding& encoding);
// Returns the scale of the values up to that step.
SeriesScale fit_scale(const OneSeries& series, const SeriesEncoding& encoding, int64_t steps);

// Returns the windows all of whose targets are in the table and for which takes(time of the first
// target, time of the last target) is true.
std::vector<Window> find_windows(const SeriesGrid& grid, const SeriesEncoding& encoding,
                                 const std::function<bool(double, double)>& takes);

}  // namespace taper::v0::data
