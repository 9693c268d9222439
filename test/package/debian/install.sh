# Run by test_package.sh in a clean root: installs the packages, the ones for running before compilers are there.
set -e
cd /package_test
export DEBIAN_FRONTEND=noninteractive
apt_get() { apt-get -q -o APT::Keep-Downloaded-Packages=true "$@" >log 2>&1 || { cat log; exit 1; }; }
apt_get update
apt_get install -y --no-install-recommends ./libatbus0_*.deb ./atbus-tools_*.deb ./python3-atbus_*.deb
atbus --version
python3 test/debian/hello.py
apt_get install -y --no-install-recommends ./libatbus-dev_*.deb g++ cmake pkg-config make
