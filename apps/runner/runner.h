// The program `taper` as a library, with parts of one's own: what such a program includes.
#pragma once

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/saved_run.h"
#include "apps/runner/components/components.h"
#include "apps/runner/program.h"
#include "apps/runner/run/evaluate.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
