# The version of the sources that a program reports: the commit of a checkout, or the version of an
# archive, which may be inside the checkout of another project.
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
