// The formulas of all element-wise functions: visit(op, args, f) calls f with an op's functor.
#pragma once

#include "framework/kernels/elementwise/binary_functors.h"
#include "framework/kernels/elementwise/unary_functors.h"
