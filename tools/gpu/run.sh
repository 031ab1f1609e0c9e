#!/usr/bin/env bash
# run.sh REPORT [SECONDS]: the checks of a bundle (bundle.sh) on this machine's GPU, in about three minutes; REPORT gets
#   device.txt     what it ran on
#   tests.txt      nests of tests/exec on the GPU against the loop interpreter: a line for each test; logs.tar.gz: all they said
#   bench.txt      kernels against the device's own copies; bench.json the same
#   sanitizer.txt  compute-sanitizer on a few of them, where there is one
# SECONDS: of each test at most. Where there is no GPU it says so and tests nothing.
set -u
report=$1 most=${2:-120}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
mkdir -p "$report" "$work/logs"
begun=$SECONDS
say() { echo "[$((SECONDS - begun)) s] $*"; }

tar xJf "$here/programs.tar.xz" -C "$work" 2> "$work/tar.txt" ||
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/programs.tar.xz" "$work" || { cat "$work/tar.txt"; exit 1; }
"$work/test_gpu" --gtest_list_tests > "$work/list" || { cat "$work/list"; exit 77; }
{ head -1 "$work/list"; nvidia-smi; uname -r; nproc; ldd --version | head -1; for tool in nvcc ptxas compute-sanitizer ncu; do command -v $tool; done; } > "$report/device.txt" 2>&1
head -1 "$work/list"

# Each test in a process of its own, side by side: most of the time goes into assembling PTX, on the host.
awk '/^[A-Z]/ {suite = $1; next} /^  / {print suite $1}' "$work/list" > "$work/tests"
export work most
xargs -P "$(nproc)" -I{} sh -c 'timeout "$most" "$work/test_gpu" --gtest_filter={} > "$work/logs/{}.log" 2>&1; echo "$? {}" >> "$work/status"' < "$work/tests"
sort -n "$work/status" | sed 's/^0 /passed /; s/^124 /time /; s/^\([0-9]\)/failed (status \1/; s/^\(failed (status [0-9]*\)/\1)/' > "$report/tests.txt"
tar czf "$report/logs.tar.gz" -C "$work" logs
say "tests: $(grep -c ^passed "$report/tests.txt") of $(wc -l < "$work/tests") passed"
grep -v ^passed "$report/tests.txt"

timeout 150 "$work/bench_gpu" --benchmark_out="$report/bench.json" --benchmark_out_format=json --benchmark_counters_tabular=true > "$report/bench.txt" 2>&1
say "benchmarks: status $?"
grep -E "^[a-z_]+/" "$report/bench.txt" | sed 's,/iterations:1/manual_time,,' | cut -c1-150

if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    echo "== $tool"
    timeout 40 compute-sanitizer --tool $tool "$work/test_gpu" --gtest_filter='CodegenHalf.SoftmaxInPlace:CodegenColumn.FewElements:CodegenStages*' 2>&1 | tail -6
  done > "$report/sanitizer.txt"
  say "compute-sanitizer"
  cat "$report/sanitizer.txt"
fi
rm -rf "$work"
