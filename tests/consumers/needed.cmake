# cmake -P: PROGRAM must not load the libraries of CUDA, NCCL and MPI when it starts. They are loaded when
# they are needed.
execute_process(COMMAND ${READELF} --dynamic ${PROGRAM} OUTPUT_VARIABLE out RESULT_VARIABLE failed)
if(failed OR NOT out MATCHES "NEEDED.*libdnnl")
  message(FATAL_ERROR "${READELF} does not list the libraries of ${PROGRAM}: ${out}")
endif()
if(out MATCHES "NEEDED[^\n]*\\[(libcu[^]]*|libnv[^]]*|libnccl[^]]*|libmpi[^]]*)\\]")
  message(FATAL_ERROR "${PROGRAM} does not start without ${CMAKE_MATCH_1}")
endif()
