# An overlay port of the sources it lies in: vcpkg install atbus --overlay-ports=packaging/vcpkg
set(SOURCE_PATH ${CURRENT_PORT_DIR}/../../..)

vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH
  ${SOURCE_PATH}
  OPTIONS
  -DATBUS_BUILD_TESTS=OFF
  -DATBUS_BUILD_TOOLS=OFF
  -DATBUS_BUILD_SAMPLES=OFF
  -DATBUS_BUILD_HTTP=OFF
  -DATBUS_BUILD_NATS=OFF
  -DATBUS_BUILD_DISCOVERY=OFF
  -DPKG_CONFIG_EXECUTABLE=${PKGCONFIG})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/atbus)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug/include ${CURRENT_PACKAGES_DIR}/debug/share)
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE)
