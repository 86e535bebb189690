# What a program says of its sources: the commit of a checkout; of an archive, which a checkout of
# another project may surround, its version.
function(taper_commit_of folder version result)
  set(commit "")
  if(EXISTS ${folder}/.git)
    execute_process(COMMAND git -C ${folder} describe --always --dirty --exclude=*
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT commit)
    set(commit "v${version}, no git checkout")
  endif()
  set(${result} "${commit}" PARENT_SCOPE)
endfunction()
