#!/usr/bin/env bash
# Writes a man page for the command and for each of its subcommands, out of what their --help says.
#
# usage: make_man_pages.sh ATBUS FOLDER
#   ATBUS   the command
#   FOLDER  where the pages go: atbus.1, atbus-show.1, ...
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -eq 2 ] || fail "usage: make_man_pages.sh ATBUS FOLDER"
command -v help2man >/dev/null ||
  fail "help2man is missing: install the package help2man, or run install_dependencies.sh --all"
atbus=$(realpath "$1")
folder=$2
version=$("$atbus" --version)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir -p "$folder"

# The headings that help2man knows stand on lines of their own.
cat >"$work/help" <<'EOF'
#!/bin/sh
"$ATBUS" $WORDS --help | sed -E 's/^(Examples?|Exit codes?): /\n\1:\n/; s/^Positionals:/Arguments:/'
EOF
chmod +x "$work/help"

# write_page WORD...: of that subcommand.
write_page() {
  local name summary
  name=$(IFS=- && echo "atbus${*:+-$*}")
  summary=$("$atbus" "$@" --help | head -n 1)
  summary=${summary#atbus: }
  # help2man calls the page as the first word of the usage.
  ATBUS=$atbus WORDS=$* help2man --no-info --section=1 --manual=atbus --source="$version" \
    --version-string="$version" --name="${summary,}" "$work/help" |
    sed -E "s/^\.TH ATBUS /.TH ${name^^} /; /^\.SH NAME/{n;s/^atbus /${name//-/\\\\-} /}" >"$folder/$name.1"
}

# The chains of subcommands that completion knows.
"$atbus" completion bash | sed -n 's/^ *"atbus\([a-z ]*\)").*/\1/p' | while read -r words; do
  # shellcheck disable=SC2086  # one word per subcommand
  write_page $words </dev/null
done
