# The packages of Debian that `cpack -G DEB` makes of the installed files. tools/script/package.sh builds them.
set(packaging_dir ${PROJECT_SOURCE_DIR}/packaging/debian)

file(STRINGS ${packaging_dir}/changelog first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^atbus \\(${PROJECT_VERSION}-([0-9]+)\\)")
  message(FATAL_ERROR "packaging/debian/changelog begins with \"${first_line}\", but this is version "
                      "${PROJECT_VERSION}. Add an entry for it.")
endif()
set(release ${CMAKE_MATCH_1})
set(version ${PROJECT_VERSION}-${release})
file(STRINGS ${packaging_dir}/changelog signature REGEX "^ -- " LIMIT_COUNT 1)
string(REGEX MATCH "[^ -].*>" maintainer "${signature}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME atbus)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The atbus authors")
set(CPACK_PACKAGE_CONTACT "${maintainer}")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/debian)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# The permissions of the packages don't depend on the umask of who builds them.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                                                GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})
set(CPACK_DEBIAN_PACKAGE_SOURCE atbus)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

find_program(ATBUS_GZIP gzip REQUIRED)
execute_process(
  COMMAND ${ATBUS_GZIP} -9nc ${packaging_dir}/changelog
  OUTPUT_FILE ${PROJECT_BINARY_DIR}/generated/changelog.Debian.gz COMMAND_ERROR_IS_FATAL ANY)

# atbus_debian_package(PACKAGE SECTION SUMMARY DESCRIPTION COMPONENT...): the package that has the files of
# these components.
macro(atbus_debian_package package section summary description)
  string(MAKE_C_IDENTIFIER ${package} group)
  string(TOUPPER ${group} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}")
  install(
    FILES ${packaging_dir}/copyright ${PROJECT_BINARY_DIR}/generated/changelog.Debian.gz
    DESTINATION share/doc/${package}
    COMPONENT ${group}_documents)
  list(APPEND CPACK_COMPONENTS_ALL ${group}_documents ${ARGN})
  foreach(component IN ITEMS ${group}_documents ${ARGN})
    string(TOUPPER ${component} component_upper)
    set(CPACK_COMPONENT_${component_upper}_GROUP ${group})
  endforeach()
endmacro()

set(what_it_is
    "atbus carries messages between processes of one or many machines: over shared\n\
memory, over TCP with TLS 1.3, and over Unix sockets. Each process has a 64-bit\n\
id, and messages find their way through other nodes.")

atbus_debian_package(libatbus0 libs "message bus over shared memory and TCP, library for C"
                     "${what_it_is}\n.\nThis package has the library for C and for languages that call C."
                     atbus_c)
# What packages of programs that link it depend on, and who has to know of it.
set(control ${PROJECT_BINARY_DIR}/generated/libatbus0)
file(WRITE ${control}/shlibs "libatbus_c 0 libatbus0 (>= ${PROJECT_VERSION})\n")
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBATBUS0_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
install(
  FILES ${packaging_dir}/libatbus0.lintian-overrides
  DESTINATION share/lintian/overrides
  RENAME libatbus0
  COMPONENT libatbus0_documents)

atbus_debian_package(
  libatbus-dev libdevel "message bus over shared memory and TCP, development files"
  "${what_it_is}\n.\nThis package has the headers, the static libraries for C++, and what CMake and\n\
pkg-config need to find all libraries." atbus_library atbus_http atbus_nats atbus_discovery
  atbus_c_development)
set(CPACK_DEBIAN_LIBATBUS_DEV_PACKAGE_DEPENDS
    "libatbus0 (= ${version}), libssl-dev (>= 3.0), libuv1-dev (>= 1.43)")
set(CPACK_DEBIAN_LIBATBUS_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_LIBATBUS_DEV_PACKAGE_SUGGESTS "cmake, pkg-config, libc-ares-dev, libcurl4-openssl-dev, libmicrohttpd-dev, libnats-dev, prometheus-cpp-dev")

if(ATBUS_BUILD_TOOLS)
  atbus_debian_package(atbus-tools utils "message bus over shared memory and TCP, command"
                       "${what_it_is}\n.\nThis package has the command atbus, which shows, tests and measures\n\
channels and nodes." atbus_command)
endif()

if(ATBUS_BUILD_PYTHON)
  atbus_debian_package(python3-atbus python "message bus over shared memory and TCP, Python module"
                       "${what_it_is}\n.\nThis package has the module atbus for Python 3." atbus_python)
  # The module is compiled for one version of Python.
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
  math(EXPR next_python_minor "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON3_ATBUS_PACKAGE_DEPENDS
      "python3 (>= ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}), python3 (<< ${Python_VERSION_MAJOR}.${next_python_minor})")
  # They byte-compile the module, and remove what that made.
  foreach(script IN ITEMS postinst prerm)
    configure_file(${packaging_dir}/python3-atbus.${script}
                   ${PROJECT_BINARY_DIR}/generated/python3-atbus/${script} COPYONLY)
    list(APPEND CPACK_DEBIAN_PYTHON3_ATBUS_PACKAGE_CONTROL_EXTRA
         ${PROJECT_BINARY_DIR}/generated/python3-atbus/${script})
  endforeach()
endif()

include(CPack)
