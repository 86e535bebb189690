"""The energy that GPUs take, from the counters of NVIDIA's management library (NVML)."""
import ctypes
import time


class Meter:
    """Reads the counters of the first `gpus` GPUs. Without NVML or without counters, it reads nothing."""

    def __init__(self, gpus):
        self.handles = []
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if self.nvml.nvmlInit_v2() != 0:
            return
        for i in range(gpus):
            handle = ctypes.c_void_p()
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0:
                self.handles.append(handle)

    def joules(self):
        """Returns the energy since the driver was loaded, the sum of all GPUs, or None."""
        total = 0
        for handle in self.handles:
            millijoules = ctypes.c_ulonglong()
            if self.nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)) != 0:
                return None
            total += millijoules.value
        return total / 1000 if self.handles else None

    def watts_of(self, call):
        """Returns call()'s result, and the mean power while it ran, or None. The call should take a second
        or more: the counters lag behind, so that 0.15 s of work seemed to take a fifth of its power."""
        before, begun = self.joules(), time.perf_counter()
        result = call()
        after, took = self.joules(), time.perf_counter() - begun
        return result, (after - before) / took if before is not None and after is not None else None
