# Run by ctest with cmake -P. Installs one kind of the library, moves the installed tree elsewhere,
# and lets a user's project find, build with and run against it, through find_package and through
# pkg-config.
#
#   KIND        static or shared
#   BUILD_DIR   a build tree of that kind; configured and built here if SOURCE_DIR is given
#   SOURCE_DIR  the atbus sources, or empty when BUILD_DIR is the build that runs the tests
#   WORK_DIR    scratch folder
#   PARTS       the further libraries that are there: http, nats, discovery
#   CXX_COMPILER, GENERATOR, CONFIG, PKG_CONFIG as in the build that runs the tests
cmake_minimum_required(VERSION 3.22)

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${KIND}: ${what} failed (${code})\n${command}\n${output}")
  endif()
  string(STRIP "${output}" output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(shared OFF)
set(pkg_config_flags --static)
if(KIND STREQUAL "shared")
  set(shared ON)
  set(pkg_config_flags "")
endif()
set(first_prefix ${WORK_DIR}/installed)
set(prefix ${WORK_DIR}/moved)
file(REMOVE_RECURSE ${first_prefix} ${prefix} ${WORK_DIR}/user_cmake ${WORK_DIR}/user_pkg_config)

if(SOURCE_DIR)
  run("configuring the library" ${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${BUILD_DIR} -G ${GENERATOR}
      -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_COMPILER=${CXX_COMPILER} -D BUILD_SHARED_LIBS=${shared}
      -D ATBUS_BUILD_TESTS=OFF -D ATBUS_BUILD_TOOLS=OFF -D ATBUS_BUILD_SAMPLES=OFF)
  set(further_libraries ${PARTS})
  list(TRANSFORM further_libraries PREPEND atbus_)
  run("building the library" ${CMAKE_COMMAND} --build ${BUILD_DIR} --target atbus atbus_testing
      ${further_libraries} --parallel 2)
endif()
run("installing" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${first_prefix} --component
    atbus_library)
file(RENAME ${first_prefix} ${prefix})

run("find_package" ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/user_cmake
    -G ${GENERATOR} -D CMAKE_BUILD_TYPE=${CONFIG} -D CMAKE_CXX_COMPILER=${CXX_COMPILER}
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run("building with find_package" ${CMAKE_COMMAND} --build ${WORK_DIR}/user_cmake)
run("the program built with find_package" ${WORK_DIR}/user_cmake/atbus_user)
run("the test built with find_package" ${WORK_DIR}/user_cmake/atbus_user_test)
message(STATUS "${KIND}, find_package: ${output}")

file(GLOB_RECURSE pc_files ${prefix}/*/atbus.pc)
list(LENGTH pc_files count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${KIND}: expected one atbus.pc in ${prefix}, found ${count}")
endif()
cmake_path(GET pc_files PARENT_PATH pc_dir)
cmake_path(GET pc_dir PARENT_PATH lib_dir)
file(MAKE_DIRECTORY ${WORK_DIR}/user_pkg_config)
foreach(program IN ITEMS main:atbus user_test:atbus-testing)
  string(REPLACE ":" ";" program ${program})
  list(GET program 0 source)
  list(GET program 1 package)
  run("pkg-config" ${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${pc_dir}" ${PKG_CONFIG}
      ${pkg_config_flags} --cflags --libs ${package})
  separate_arguments(flags UNIX_COMMAND "${output}")
  run("building with pkg-config" ${CXX_COMPILER} -std=c++20 ${CMAKE_CURRENT_LIST_DIR}/${source}.cpp
      -o ${WORK_DIR}/user_pkg_config/${source} ${flags})
  run("the program built with pkg-config" ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${lib_dir}"
      ${WORK_DIR}/user_pkg_config/${source})
  message(STATUS "${KIND}, pkg-config: ${output}")
endforeach()

# Components of their own: what was installed so far does without them.
foreach(header IN ITEMS status_server.hpp nats.hpp etcd.hpp dns.hpp)
  if(EXISTS ${prefix}/include/atbus/${header})
    message(FATAL_ERROR "${KIND}: the library has brought ${header}")
  endif()
endforeach()
foreach(part IN LISTS PARTS)
  run("installing ${part}" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} --component
      atbus_${part})
  file(REMOVE_RECURSE ${WORK_DIR}/user_${part})
  run("find_package with ${part}" ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${part} -B
      ${WORK_DIR}/user_${part} -G ${GENERATOR} -D CMAKE_BUILD_TYPE=${CONFIG} -D
      CMAKE_CXX_COMPILER=${CXX_COMPILER} -D CMAKE_PREFIX_PATH=${prefix} -D
      CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
  run("building with ${part}" ${CMAKE_COMMAND} --build ${WORK_DIR}/user_${part})
  run("the program with ${part}" ${WORK_DIR}/user_${part}/atbus_${part}_user)
  message(STATUS "${KIND}, find_package with ${part}: ${output}")
  run("pkg-config" ${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${pc_dir}" ${PKG_CONFIG} ${pkg_config_flags}
      --cflags --libs atbus-${part})
  separate_arguments(flags UNIX_COMMAND "${output}")
  run("building with pkg-config" ${CXX_COMPILER} -std=c++20 ${CMAKE_CURRENT_LIST_DIR}/${part}/main.cpp -o
      ${WORK_DIR}/user_pkg_config/${part} ${flags})
  run("the program built with pkg-config" ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${lib_dir}"
      ${WORK_DIR}/user_pkg_config/${part})
  message(STATUS "${KIND}, pkg-config: ${output}")
endforeach()

# A program in C that knows only what was installed. The other kind of package is built without it.
if(SOURCE_DIR)
  return()
endif()
foreach(component IN ITEMS atbus_c atbus_c_development)
  run("installing for C" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/installed_c
      --component ${component})
endforeach()
file(REMOVE_RECURSE ${WORK_DIR}/moved_c)
file(RENAME ${WORK_DIR}/installed_c ${WORK_DIR}/moved_c)
file(GLOB_RECURSE pc_files ${WORK_DIR}/moved_c/*/atbus_c.pc)
cmake_path(GET pc_files PARENT_PATH pc_dir)
cmake_path(GET pc_dir PARENT_PATH lib_dir)
run("pkg-config" ${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${pc_dir}" ${PKG_CONFIG} --cflags --libs
    atbus_c)
separate_arguments(flags UNIX_COMMAND "${output}")
run("building in C" ${CXX_COMPILER} -x c -std=c99 ${CMAKE_CURRENT_LIST_DIR}/user.c -x none -o
    ${WORK_DIR}/user_c ${flags})
run("the program in C" ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${lib_dir}" ${WORK_DIR}/user_c)
message(STATUS "C, pkg-config: ${output}")
