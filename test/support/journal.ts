/**
 * A kluctl that keeps a journal: when each call began, that it was still alive, and how it ended. What it does in
 * between is the real kluctl's work, unless a test stages something else.
 */
import { readFileSync } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { uniqueName, type TestWorld } from "./world.ts";

export interface JournalRun {
  readonly id: string;
  /** Process id of the server that started it. */
  readonly server: number;
  readonly command: string;
  /** The repository's name and the target, `shop/prod`. */
  readonly subject: string;
  readonly commit: string;
  /** It may change the cluster. */
  readonly mutating: boolean;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** Its last sign of life. */
  readonly seenAt: number;
  /** Absent while it runs, and for ever if it was killed. */
  readonly exitCode?: number | undefined;
}

export interface Journal {
  /** The program, for TOWLINE_KLUCTL. */
  readonly kluctl: string;
  /** In the order in which they began. */
  runs(): JournalRun[];
  /** Those that may have changed the cluster; of one subject, or of all. */
  deploys(subject?: string): JournalRun[];
  /** Pairs of calls for one subject that may have changed the cluster at the same time. There must never be one. */
  overlaps(): (readonly [JournalRun, JournalRun])[];
  /**
   * What is done in place of kluctl from now on: a piece of bash that knows `$command`, `$subject`, the result file
   * `$out`, and `kluctl` for the real one with the arguments of this call. Without one, the real kluctl runs.
   */
  stage(script?: string): Promise<void>;
  /** Holds the calls for which the bash condition is true until the returned function is called. */
  hold(condition: string): Promise<() => Promise<void>>;
}

/** For servers that preview, too: nothing that is confined could write a journal, or wait for what it cannot read. */
export const journaled = { TOWLINE_PREVIEW_ISOLATION: "off" };

/** How often a call says that it is alive. */
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
      await rename(`${stageFile}.new`, stageFile); // whole, whenever a call reads it
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
 * Each line is appended with one write, so that lines of several processes do not mix. Only builtins in the loops: the
 * machine is busy enough. SIGTERM is left to what it is meant for, as it would be without this shell in between.
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
