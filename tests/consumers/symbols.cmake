# cmake -P: a shared library and the runner's object show names of this version's taper:: alone, and
# the helpers of tests need no GoogleTest.
function(symbols result)
  execute_process(COMMAND ${NM} ${ARGN} OUTPUT_VARIABLE out RESULT_VARIABLE failed)
  if(failed OR NOT out)
    message(FATAL_ERROR "nm ${ARGN} says nothing")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${out}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

symbols(shown --dynamic --defined-only ${SHARED})
list(FILTER shown EXCLUDE REGEX " _Z[A-Z]*[a-z0-9_]*N[KRO]*5taper2v0|exports.map")
symbols(outer --extern-only --defined-only ${RUNNER})
list(FILTER outer EXCLUDE REGEX " _Z[A-Z]*[a-z0-9_]*N[KRO]*5taper2v0| u |^[^ ]+:$")
# spdlog is within the runner's object, and none of it is seen from outside.
symbols(inner --defined-only ${RUNNER})
list(FILTER inner INCLUDE REGEX "6spdlog")
if(NOT inner)
  message(FATAL_ERROR "there is no spdlog in ${RUNNER}")
endif()
list(FILTER inner INCLUDE REGEX " [A-Zu] ")
symbols(needed --undefined-only ${TESTING})
list(FILTER needed INCLUDE REGEX "N7testing")
if(shown OR outer OR inner OR needed)
  message(FATAL_ERROR
    "shown: ${shown}\nby the runner: ${outer};${inner}\nneeded: ${needed}")
endif()
