# What `cmake --install` puts where. The component atbus_library is the library and the one to test
# with, their headers and package files. The status server (atbus_http), links through NATS servers
# (atbus_nats), discovery by etcd (atbus_discovery), the command (atbus_command), the library for C (atbus_c)
# and what programs in C are built with (atbus_c_development) are components of their own.
include(CMakePackageConfigHelpers)
set(atbus_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/atbus)

install(
  TARGETS atbus atbus_testing
  EXPORT atbus_targets
  COMPONENT atbus_library
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${ATBUS_GENERATED_INCLUDE_DIR}/
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT atbus_library
  FILES_MATCHING
  PATTERN "*.hpp"
  PATTERN "etcd.hpp" EXCLUDE
  PATTERN "dns.hpp" EXCLUDE
  PATTERN "nats.hpp" EXCLUDE
  PATTERN "status_server.hpp" EXCLUDE)
if(NOT ATBUS_DEBIAN)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
          COMPONENT atbus_library)
endif()

install(
  EXPORT atbus_targets
  NAMESPACE atbus::
  DESTINATION ${atbus_package_dir}
  COMPONENT atbus_library)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/atbus-config.cmake.in ${PROJECT_BINARY_DIR}/generated/atbus-config.cmake
  INSTALL_DESTINATION ${atbus_package_dir}
  NO_SET_AND_CHECK_MACRO)
# While the major number is 0 a new minor number may break the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/generated/atbus-config-version.cmake
  VERSION ${PROJECT_VERSION}
  COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/generated/atbus-config.cmake
        ${PROJECT_BINARY_DIR}/generated/atbus-config-version.cmake
  DESTINATION ${atbus_package_dir}
  COMPONENT atbus_library)

# The pkg-config file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH atbus_prefix_from_pc "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
     "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" atbus_prefix_from_pc "${atbus_prefix_from_pc}")
set(atbus_pc_requires "")
set(atbus_pc_cflags "")
if(NOT BUILD_SHARED_LIBS)
  # Seen with `pkg-config --static` only, as for every static library.
  set(atbus_pc_requires "libuv >= 1.43, libssl >= 3.0, libcrypto >= 3.0")
  set(atbus_pc_cflags " -DATBUS_STATIC=1")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/atbus.pc.in ${PROJECT_BINARY_DIR}/generated/atbus.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/atbus-testing.pc.in
               ${PROJECT_BINARY_DIR}/generated/atbus-testing.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/atbus.pc ${PROJECT_BINARY_DIR}/generated/atbus-testing.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT atbus_library)

atbus_install_part(http HEADERS status_server.hpp DESCRIPTION "The state of a node of atbus over HTTP"
                   LIBRARIES "-lmicrohttpd -lprometheus-cpp-core")
atbus_install_part(nats HEADERS nats.hpp DESCRIPTION "Links of atbus through NATS servers"
                   LIBRARIES "-lnats -lcrypto")
atbus_install_part(discovery HEADERS etcd.hpp dns.hpp DESCRIPTION "Discovery of atbus nodes by etcd and DNS"
                   LIBRARIES "-lcurl -lcares -lresolv")

if(TARGET atbus_command)
  install(TARGETS atbus_command RUNTIME COMPONENT atbus_command)
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/relay/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/atbus-tools/examples
    COMPONENT atbus_command)
endif()
if(ATBUS_BUILD_MAN_PAGES AND TARGET atbus_command)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT atbus_command)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/completion/
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT atbus_command)
endif()

# An instrumented build has no such library.
if(TARGET atbus_c AND NOT (ATBUS_SANITIZE OR ATBUS_COVERAGE))
  install(
    TARGETS atbus_c
    EXPORT atbus_c_targets
    LIBRARY COMPONENT atbus_c NAMELINK_COMPONENT atbus_c_development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(
    EXPORT atbus_c_targets
    NAMESPACE atbus::
    DESTINATION ${atbus_package_dir}
    COMPONENT atbus_c_development)
  install(FILES ${PROJECT_SOURCE_DIR}/include/atbus/atbus.h
                ${PROJECT_SOURCE_DIR}/include/atbus/atbus_simulation.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/atbus COMPONENT atbus_c_development)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/atbus_c.pc.in ${PROJECT_BINARY_DIR}/generated/atbus_c.pc
                 @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/generated/atbus_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT atbus_c_development)
endif()

if(ATBUS_DEBIAN)
  include(atbus_debian)
endif()
