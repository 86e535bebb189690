// The public header of the runner: the program `taper` as a library, for programs that add their
// own components or call train() themselves.
#pragma once

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/saved_run.h"
#include "apps/runner/components/components.h"
#include "apps/runner/program.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
