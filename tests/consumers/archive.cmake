# cmake -P: a folder without .git in the checkout of another project names the version.
include(${SOURCE}/cmake/commit.cmake)
taper_commit_of(${CMAKE_CURRENT_LIST_DIR} 1.2.3 commit)
if(NOT commit STREQUAL "v1.2.3, no git checkout")
  message(FATAL_ERROR "got '${commit}'")
endif()
