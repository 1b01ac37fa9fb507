#!/usr/bin/env bash
# Runs the flights example on the data in the repository and says what to look at, and how to try to break it.
#   scripts/demo.sh path/to/weir
set -euo pipefail
weir="${1:-weir}"
cd "$(dirname "$0")/.."
example="examples/flights"
out="${OUT:-$PWD/$example/out}"
data="$PWD/$example/.weir/flights"

# A demo that has finished would say so and do nothing: begin anew.
if OUT="$out" "$weir" checkpoint list "$example/job.toml" >/dev/null 2>&1 && [ -d "$data" ]; then
    rm -rf "$data" "$out/stats" "$out/rejected"
fi

echo "Running $example/job.toml: one month of flights from New York, counted per carrier and airport."
echo
OUT="$out" "$weir" run "$example/job.toml"

lines() { find "$1" -type f -name 'part-*' -exec cat {} + | wc -l; }
cat <<TEXT

Committed files (each appeared whole, at a checkpoint):
  $out/stats      $(lines "$out/stats") lines: carrier,origin,count,sum_dep_delay,max_dep_delay
  $out/rejected   $(lines "$out/rejected") lines: flights without a departure delay

Now try to break it:
  rm -rf $data $out/stats $out/rejected
  OUT=$out $weir run $example/job.toml &     # start it,
  sleep 5; kill -9 \$!                        # kill it in the middle,
  OUT=$out $weir run $example/job.toml       # and go on: it resumes from its newest checkpoint.
  cat $out/stats/part-* | wc -l              # $(lines "$out/stats"), as before: nothing is lost,
  cut -d, -f1-3 $out/stats/part-* | sort | uniq -d     # and no count stands there twice: this prints nothing
What a checkpoint holds:
  $weir checkpoint list $example/job.toml
  $weir checkpoint show $example/job.toml
TEXT
