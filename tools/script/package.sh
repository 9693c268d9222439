#!/usr/bin/env bash
# Builds the Debian packages libatbus0, libatbus-dev, atbus-tools and python3-atbus into
# build/package/debian. They are for the system that builds them: its architecture, its libraries and its
# python3.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help)
    usage
    exit
    ;;
  *) fail "unknown argument \"$1\"; usage: package.sh" ;;
esac

heading "the Debian packages"
command -v dpkg-shlibdeps >/dev/null ||
  fail "dpkg-shlibdeps is missing: install the package dpkg-dev, or run install_dependencies.sh --all"
folder=$root/build/package
# Another python3 that comes first in PATH is not the one of the packages.
environment=$folder/python
[ -x "$environment/bin/pip" ] || /usr/bin/python3 -m venv "$environment"
"$environment/bin/pip" install -q 'nanobind>=2.0'

configure package -D "CMAKE_INSTALL_LIBDIR=lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)" \
  -D "Python_EXECUTABLE=$environment/bin/python"
build package
rm -rf "$folder/debian"
(cd "$folder" && cpack --config CPackConfig.cmake)
rm -rf "$folder/debian/_CPack_Packages"
ls -1 "$folder/debian"
