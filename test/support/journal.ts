/**
 * A kluctl that keeps a journal of each run: its start, signs of life, and its end. The real kluctl does the work in
 * between, unless a test stages something else.
 */
import { readFileSync } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { uniqueName, type TestWorld } from "./world.ts";

export interface JournalRun {
  readonly id: string;
  /** Process id of the server that started the run. */
  readonly server: number;
  readonly command: string;
  /** Name of the repository and target: `shop/prod`. */
  readonly subject: string;
  readonly commit: string;
  /** The run may change the cluster. */
  readonly mutating: boolean;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** Last sign of life. */
  readonly seenAt: number;
  /** Absent while the run is alive, and if it was killed. */
  readonly exitCode?: number | undefined;
}

export interface Journal {
  /** Path of the program, for TOWLINE_KLUCTL. */
  readonly kluctl: string;
  /** All runs in the order in which they started. */
  runs(): JournalRun[];
  /** Runs that may have changed the cluster, of one subject or of all. */
  deploys(subject?: string): JournalRun[];
  /** Pairs of runs for one subject that may have changed the cluster at the same time. There must be none. */
  overlaps(): (readonly [JournalRun, JournalRun])[];
  /**
   * Replaces kluctl in further runs with a bash script, which can use `$command`, `$subject`, the result file `$out`,
   * and the function `kluctl`, which runs the real one with the arguments of this run. Without a script, the real
   * kluctl runs.
   */
  stage(script?: string): Promise<void>;
  /** Holds the runs for which the bash condition is true until the returned function is called. */
  hold(condition: string): Promise<() => Promise<void>>;
}

/**
 * Also for servers with previews: an isolated process could not write to a journal, or wait for a file that it cannot
 * read.
 */
export const journaled = { TOWLINE_PREVIEW_ISOLATION: "off" };

/** Interval between two signs of life of a run. */
const beatSeconds = 0.1;

const Line = z.object({
  run: z.string(),
  event: z.enum(["start", "beat", "end"]),
  at: z.number(),
  server: z.number().optional(),
  command: z.string().optional(),
  subject: z.string().optional(),
  commit: z.string().optional(),
  mutating: z.boolean().optional(),
  exitCode: z.number().optional(),
});

export async function useJournal({ dir, kluctl: real }: Pick<TestWorld, "dir" | "kluctl">): Promise<Journal> {
  const here = join(dir, uniqueName("journal"));
  const file = join(here, "lines");
  const stageFile = join(here, "stage");
  const kluctl = join(here, "kluctl");
  await mkdir(here);
  await writeFile(file, "");
  await writeFile(kluctl, wrapper({ here, real }));
  await chmod(kluctl, 0o755);

  const journal: Journal = {
    kluctl,
    runs: () => toRuns(readFileSync(file, "utf8")),
    deploys: (subject) =>
      journal.runs().filter((run) => run.mutating && (subject === undefined || run.subject === subject)),
    overlaps: () => findOverlaps(journal.deploys()),
    async stage(script = "kluctl") {
      await writeFile(`${stageFile}.new`, script);
      await rename(`${stageFile}.new`, stageFile); // atomic for runs that read it at the same time
    },
    async hold(condition) {
      const gate = join(here, uniqueName("gate"));
      await writeFile(gate, "");
      await journal.stage(`if ${condition}; then while [ -e ${gate} ]; do nap; done; fi; kluctl`);
      return () => rm(gate, { force: true });
    },
  };
  await journal.stage();
  return journal;
}

/**
 * Each line is appended with one write, so that lines of several processes do not mix. The loops use only builtins,
 * because the machine is busy enough. The shell does not handle SIGTERM, so that the signal has the same effect as
 * without the shell.
 */
function wrapper({ here, real }: { here: string; real: string }): string {
  return `#!/bin/bash
real=${real}
command=$1
if [ "$command" = version ]; then exec "$real" "$@"; fi
mutating=true
case $command in diff | validate) mutating=false ;; esac
for argument; do
  case $argument in
    --project-dir=*) project=\${argument#*=} ;;
    --target=*) target=\${argument#*=} ;;
    --dry-run | --dry-run=true) mutating=false ;;
    yaml=*) out=\${argument#*=} ;;
  esac
done
origin=$(git -C "$project" config remote.origin.url)
subject=$(basename "$origin" .git)/$target
commit=$(git -C "$project" rev-parse HEAD)
server=\${PWD##*/}
run=$$-$EPOCHREALTIME
note() { printf '{"run":"%s","at":%s,"event":%s}\\n' "$run" "$EPOCHREALTIME" "$1" >>${here}/lines; }
exec 9<> <(:)
nap() { read -r -t ${beatSeconds} -u 9; }
kluctl() { exec "$real" "\${arguments[@]}" 9<&-; }
arguments=("$@")

# What is staged is read before the call is seen, so that whoever saw it may stage something else for the next one.
staged=$(<${here}/stage)
trap : TERM
note "\\"start\\",\\"server\\":\${server%%-*},\\"command\\":\\"$command\\",\\"subject\\":\\"$subject\\",\\"commit\\":\\"$commit\\",\\"mutating\\":$mutating"
( trap '' TERM; while :; do nap; note '"beat"'; done ) >/dev/null 2>&1 & beats=$!
( trap - TERM; eval "$staged" ) & child=$!
until wait "$child"; status=$?; ! kill -0 "$child" 2>/dev/null; do :; done
kill -KILL "$beats"
wait "$beats" 2>/dev/null # or bash tells of its death
note "\\"end\\",\\"exitCode\\":$status"
exit "$status"
`;
}

function toRuns(text: string): JournalRun[] {
  const runs = new Map<string, JournalRun>();
  for (const line of text.split("\n").slice(0, -1)) {
    const { run: id, event, at, ...said } = Line.parse(JSON.parse(line));
    const seenAt = at * 1_000;
    const run = runs.get(id);
    if (event === "start") {
      const { server = 0, command = "", subject = "", commit = "", mutating = false } = said;
      runs.set(id, { id, server, command, subject, commit, mutating, startedAt: seenAt, seenAt });
    } else if (run) {
      runs.set(id, { ...run, seenAt, ...(event === "end" && { exitCode: said.exitCode }) });
    }
  }
  return [...runs.values()].toSorted((a, b) => a.startedAt - b.startedAt);
}

function findOverlaps(runs: readonly JournalRun[]): (readonly [JournalRun, JournalRun])[] {
  return runs.flatMap((one, i) =>
    runs
      .slice(i + 1)
      .filter((other) => other.subject === one.subject && other.startedAt < one.seenAt)
      .map((other) => [one, other] as const),
  );
}
