// The targets and weights of a table's rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/source.h"
#include "data/tables/table_encoding.h"

namespace taper::v0::data {

// Fits a target on these rows. The classes are those of `all_rows`, sorted by value if all are
// integers, otherwise by bytes. Throws InputError for a value that is not a number, with its place.
TargetColumn fit_target(const RawTable& table, const ColumnSummary& column, Task task, bool is_log,
                        bool is_scaled, std::span<const int64_t> rows,
                        std::span<const int64_t> all_rows);

// Returns classes [n] int64, or values [n] float32 as the model predicts them; of several targets
// values or labels [n, targets] float32. Throws InputError with the place for an unknown class, a
// missing target, and a value that is not a number (or, for a logarithm, not positive). With
// `allows_missing`, a missing target becomes class -1 or the value NaN instead.
Tensor encode_targets(const TableEncoding& encoding, const RawTable& table,
                      std::span<const int64_t> rows, bool allows_missing = false);
// Returns the positions of the rows of such targets of which none is missing.
std::vector<int64_t> rows_with_targets(const TableEncoding& encoding, const Tensor& targets);

// Returns the weights of these rows, [n] float32. Throws InputError with the place for a weight
// that is missing, no number or negative.
Tensor encode_weights(const TableEncoding& encoding, const RawTable& table,
                      std::span<const int64_t> rows);

// Throws DataError if a target of classes has one class only, or one of several has more than two.
// file: for messages.
void require_learnable(const TableEncoding& encoding, const std::string& file);

// Sets the task, outputs, names of classes, labels and scales of `info` by the targets.
void describe_targets(DataInfo& info, Task task, const TableEncoding& encoding);

// Returns the scales of several targets of values; an empty list for one target or classes.
std::vector<TargetScale> scales_of_several(const std::vector<TargetColumn>& targets);

// Returns the labels of several targets of classes; an empty list for one target or values.
std::vector<Label> labels_of(const std::vector<TargetColumn>& targets);

// Returns a class of each row [n] for a stratified division: the class of one target, or the
// combination of several labels, where rare combinations count as one.
std::vector<int64_t> strata_of(const TableEncoding& encoding, const RawTable& table,
                               std::span<const int64_t> rows);

}  // namespace taper::v0::data
