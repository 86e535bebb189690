// The threads that CPU kernels share work with. None is started before there is work for it, and
// small work wakes none.
#pragma once

namespace taper {

// How many threads a kernel may use, the caller included; at first as many as the process may run
// on (OMP_NUM_THREADS lowers it). Results do not depend on it.
int get_num_threads();
// At least 1. Not to be called while another thread computes.
void set_num_threads(int n);

}  // namespace taper
