#!/usr/bin/env bash
# A folder for a machine that has a GPU and its driver, and no compiler, torch or network: ./dev gpu-bundle FOLDER. There: FOLDER/run.sh REPORT
set -eu
build=$1 folder=$2
mkdir -p "$folder"
for program in tests/test_gpu bench/bench_gpu; do
  [ -x "$build/$program" ] || { echo "gpu-bundle: $build/$program is not built (benchmarks and tests need -Dbenchmarks=enabled -Dtests=enabled)" >&2; exit 1; }
  strip -o "$folder/$(basename "$program")" "$build/$program"
done
(cd "$folder" && tar cf - test_gpu bench_gpu | xz -2 -T2 > programs.tar.xz && rm test_gpu bench_gpu)
cp "$(dirname "$0")/run.sh" "$folder"
echo "$folder: $(du -sh "$folder" | cut -f1). There: $folder/run.sh REPORT"
