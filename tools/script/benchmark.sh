# Shared by the startup_benchmark_*.sh beside it; to be sourced, not run. They run one benchmark of the
# atbus command and print its result with the columns of the ancestor's benchmark table.
# shellcheck shell=bash
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# take_arguments LEAST MOST ARGUMENT...: answers --help, refuses other numbers of arguments.
take_arguments() {
  local least=$1 most=$2
  shift 2
  case ${1:-} in
    -h | --help)
      usage
      exit 0
      ;;
  esac
  if [ $# -lt "$least" ] || [ $# -gt "$most" ]; then
    usage >&2
    exit 2
  fi
}

# whole_number NAME VALUE LEAST MOST
whole_number() {
  if ! [[ $2 =~ ^(0|[1-9][0-9]{0,9})$ ]] || [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
    fail "$1 is \"$2\" but must be a whole number from $3 to $4 (--help explains)"
  fi
}

# print_row ITEM FILE: of what `atbus bench --json` wrote.
print_row() {
  local item=$1 json=$2
  jq -r '[.connections // .senders, .unit_size * 8, .sender.cpu_percent, .receiver.cpu_percent,
          .sender.max_rss_kib, .receiver.max_rss_kib, .bytes_per_second, .messages_per_second]
         | map(. // 0 | tostring) | join(" ")' "$json" | awk -v item="$item" '
    function digits(value) {
      return sprintf(value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value)
    }
    function scaled(value, unit) {
      if (value >= 1e9) return digits(value / 1e9) "G" unit
      if (value >= 1e6) return digits(value / 1e6) "M" unit
      return digits(value / 1e3) "K" unit
    }
    {
      row = "%-22s %11s %15s %21s %24s %12s %12s\n"
      printf row, "test item", "connections", "packet length", "CPU sender/receiver",
             "memory sender/receiver", "throughput", "QPS"
      printf row, item, $1, "8-" $2 " bytes", sprintf("%.0f%%/%.0f%%", $3, $4),
             sprintf("%.1fMB/%.1fMB", $5 * 1024 / 1e6, $6 * 1024 / 1e6), scaled($7, "B/s"),
             scaled($8, "/s")
    }'
}

# run_benchmark ITEM SECONDS KIND OPTION...: runs `atbus bench KIND OPTION...`, prints the row ITEM.
run_benchmark() {
  local item=$1 seconds=$2 kind=$3 json atbus bench_code=0 problems
  shift 3
  if ! atbus=$(find_release_command); then
    say "No Release build yet; building one."
    "$root/tools/script/install_dependencies.sh"
    configure release
    build release atbus_command
    atbus=$root/build/release/bin/atbus
  fi
  command -v jq >/dev/null || "$root/tools/script/install_dependencies.sh"

  json=$(mktemp)
  # shellcheck disable=SC2064 # the name as it is now
  trap "rm -f '$json'" EXIT
  say "$item: running for $seconds s ..." >&2
  # The run ends by itself; the longer limit is for the case that it does not.
  timeout --foreground --kill-after=10 $((seconds + 60)) \
    "$atbus" bench "$kind" "$@" --seconds "$seconds" --json "$json" </dev/null >/dev/null ||
    bench_code=$?
  if [ ! -s "$json" ]; then
    fail "atbus bench $kind ended with code $bench_code and left no result"
  fi
  print_row "$item" "$json"

  problems=$(jq -r '[("lost", "corrupt", "reordered") as $what | select(.[$what] != 0)
                     | "\(.[$what]) \($what)"] | join(", ")' "$json")
  if [ -n "$problems" ]; then
    fail "messages: $problems"
  fi
  if [ "$(jq -r '.messages > 0' "$json")" != true ]; then
    fail "no message arrived"
  fi
  exit "$bench_code"
}
