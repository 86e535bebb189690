# cmake -P: runs PROGRAM in gdb up to stop_here() and checks the output of the printers of SCRIPT.
foreach(name x transposed narrowed integers undefined x.impl_.p_->shape)
  list(APPEND print -ex "print ${name}")
endforeach()
execute_process(
  COMMAND ${GDB} -q -nx -batch -x ${SCRIPT} -ex "break stop_here" -ex run -ex up ${print} ${PROGRAM}
  OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(err MATCHES "ptrace|Operation not permitted")
  message("skipped: this system does not let gdb run a program")
  return()
endif()
foreach(line
    "tensor([2, 3], float32, cpu, requires_grad) = {1, 2, 3, 4, 5, 6}"
    "tensor([3, 2], float32, cpu) = {1, 4, 2, 5, 3, 6}"
    "tensor([2, 2], bfloat16, cpu) = {2, 3, 5, 6}"
    "tensor([5], int64, cpu) = {0, 1, 2, 3, 4}"
    "tensor(undefined)"
    "= [2, 3]")
  string(FIND "${out}" "${line}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "gdb did not print '${line}':\n${out}\n${err}")
  endif()
endforeach()
