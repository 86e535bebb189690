# cmake -P: without a .git of its own, a folder within another project's checkout has the version as its
# commit.
include(${SOURCE}/cmake/commit.cmake)
taper_commit_of(${CMAKE_CURRENT_LIST_DIR} 1.2.3 commit)
if(NOT commit STREQUAL "v1.2.3, no git checkout")
  message(FATAL_ERROR "got '${commit}'")
endif()
