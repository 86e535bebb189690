# cmake -P: a shared library and the runner's object export only names of this version's namespace taper,
# and the helpers for users' tests do not need GoogleTest.
function(symbols result)
  execute_process(COMMAND ${NM} ${ARGN} OUTPUT_VARIABLE out RESULT_VARIABLE failed)
  if(failed OR NOT out)
    message(FATAL_ERROR "nm ${ARGN} printed nothing")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${out}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

symbols(shown --dynamic --defined-only ${SHARED})
list(FILTER shown EXCLUDE REGEX " _Z[A-Z]*[a-z0-9_]*N[KRO]*5taper2v0|exports.map")
symbols(outer --extern-only --defined-only ${RUNNER})
list(FILTER outer EXCLUDE REGEX " _Z[A-Z]*[a-z0-9_]*N[KRO]*5taper2v0| u |^[^ ]+:$")
# The runner's object contains spdlog and exports none of its symbols.
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
    "exported: ${shown}\nby the runner: ${outer};${inner}\nneeded: ${needed}")
endif()
