# Run by test_package.sh in a clean root: removes the packages, and fails if something of them stays.
set -e
apt-get -q -o Dpkg::Use-Pty=0 purge -y libatbus0 libatbus-dev atbus-tools python3-atbus >/dev/null
left=$(find / -xdev -path /proc -prune -o -path /package_test -prune -o -name '*atbus*' -print)
if [ -n "$left" ]; then
  echo "the packages have left files behind: $left"
  exit 1
fi
