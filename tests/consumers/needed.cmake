# cmake -P: what PROGRAM loads as it starts; CUDA's libraries, NCCL and MPI are loaded when needed.
execute_process(COMMAND ${READELF} --dynamic ${PROGRAM} OUTPUT_VARIABLE out RESULT_VARIABLE failed)
if(failed OR NOT out MATCHES "NEEDED.*libdnnl")
  message(FATAL_ERROR "${READELF} says nothing of ${PROGRAM}: ${out}")
endif()
if(out MATCHES "NEEDED[^\n]*\\[(libcu[^]]*|libnv[^]]*|libnccl[^]]*|libmpi[^]]*)\\]")
  message(FATAL_ERROR "${PROGRAM} does not start without ${CMAKE_MATCH_1}")
endif()
