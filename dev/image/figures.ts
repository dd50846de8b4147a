/** The measurements of an image, with an engine or without one. */

/**
 * A script that measures how long kluctl takes to start in the image, with the examples in /lent/examples: each figure
 * is the shortest of three. Rendering offline is the least that a run of kluctl does.
 */
export const startKluctl = String.raw`
unpacked=/usr/local/lib/towline/unpacked/tmp
cp -r /lent/examples/shop /tmp/shop
export KLUCTL_CACHE_DIR=/tmp/cache
render() {
  local from=$(date +%s%N)
  kluctl render --no-update-check --offline-kubernetes --project-dir /tmp/shop -t staging --render-output-dir /tmp/out >/dev/null 2>&1
  echo $((($(date +%s%N) - from) / 1000000))
}
least() { sort -n "$1" | head -n 1; }
render >/dev/null # what the disk had to give is in memory from now on
for n in 1 2 3; do
  export TMPDIR=/tmp/linked-$n; mkdir $TMPDIR; ln -s $unpacked/go-embedded-* $TMPDIR/
  render >>/tmp/image-first; render >>/tmp/image-second
  export TMPDIR=/tmp/empty-$n; mkdir $TMPDIR
  render >>/tmp/empty-first; render >>/tmp/empty-second
done
echo
row='%-34s%12s%12s\n'
printf "$row" "kluctl render, ms" "first run" "second run"
printf "$row" "with the unpacked Python" "$(least /tmp/image-first)" "$(least /tmp/image-second)"
printf "$row" "with an empty cache" "$(least /tmp/empty-first)" "$(least /tmp/empty-second)"
`;

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

export function print(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  for (const row of rows)
    process.stdout.write(
      `${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("   ")}\n`,
    );
}
