#include "tests/op_table/op_table.h"

namespace taper::test {

std::vector<Row> pool_rows() { return {}; }

}  // namespace taper::test
