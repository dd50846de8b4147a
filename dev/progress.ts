/** Shows programs that are downloaded, installed or built: which is in progress, what remains, and how long it takes. */

export interface Progress {
  /** Reports something else, in a line of its own. */
  say(line: string): void;
  /** Adds a part that is still missing. `usualSeconds`: how long it took where that was measured. */
  expect(name: string, usualSeconds?: number): Part;
}

export interface Part {
  begin(work: Work): void;
  /** What has begun is given up; something else will begin later. */
  wait(usualSeconds?: number): void;
  /** Shown beside the part where there is room, such as `12 of 110 MB`. */
  update(detail: string): void;
  end(outcome: "there" | "failed"): void;
}

export interface Work {
  readonly doing: keyof typeof past;
  /** Name and version. */
  readonly title: string;
  /** Where it comes from, such as `from Go modules`. */
  readonly from?: string;
  readonly usualSeconds?: number;
}

const past = { downloading: "downloaded", installing: "installed", building: "built" } as const;

interface Entry {
  readonly name: string;
  usualSeconds: number | undefined;
  work?: Work;
  /** Epoch milliseconds. */
  beganAt?: number;
  endedAt?: number;
  detail?: string;
  failed?: boolean;
}

/** Says when a part begins and when it is there, and nothing in between. */
export function createLines(say: (line: string) => void): Progress {
  return createEntries(say, {
    began(entry, entries) {
      const { work } = entry;
      if (work === undefined) return;
      const notes = [...(work.usualSeconds === undefined ? [] : [usually(work.usualSeconds)]), "once"];
      say(`${[work.doing, work.title, work.from].filter(Boolean).join(" ")} (${notes.join(", ")}${toCome(entries)}) …`);
    },
    ended({ work, beganAt, endedAt = 0, failed }) {
      if (work && beganAt !== undefined && !failed)
        say(`${past[work.doing]} ${work.title} (${Math.round((endedAt - beganAt) / 1_000)} s)`);
    },
  });
}

export interface View extends Progress {
  /** Lets `write` print whole lines to the same terminal, above the parts. */
  above(write: () => void): void;
  /** Leaves the parts as they are shown now. */
  stop(): void;
}

type Terminal = Pick<NodeJS.WriteStream, "write" | "isTTY" | "columns" | "rows">;

/** One line for each part, redrawn every second, on a terminal that can do that; otherwise lines. */
export function createView(terminal: Terminal, env: NodeJS.ProcessEnv = process.env): View {
  const write = (line: string) => void terminal.write(`${line}\n`);
  if (!terminal.isTTY || env["TERM"] === "dumb")
    return { ...createLines(write), above: (print) => print(), stop: () => undefined };

  let shown: readonly Entry[] = [];
  let drawn = 0;
  let timer: NodeJS.Timeout | undefined;

  function erase(): void {
    if (drawn > 0) terminal.write(`\u001b[${drawn}A\u001b[J`);
    drawn = 0;
  }
  function draw(entries: readonly Entry[]): void {
    erase();
    // A line that wraps, or that scrolls out at the top, could not be erased.
    const lines = linesOf(entries, terminal.rows - 2).map((line) => line.slice(0, terminal.columns - 1).trimEnd());
    lines.forEach(write);
    drawn = lines.length;
  }
  function above(print: () => void): void {
    erase();
    print();
    draw(shown);
  }
  function stop(): void {
    clearInterval(timer);
    timer = undefined;
    [shown, drawn] = [[], 0];
  }
  function changed(_: Entry, entries: readonly Entry[]): void {
    timer ??= setInterval(() => draw(shown), 1_000).unref();
    shown = entries;
    draw(entries);
    if (entries.every(({ endedAt }) => endedAt !== undefined)) stop();
  }
  const say = (line: string) => above(() => write(line));
  return { ...createEntries(say, { waits: changed, began: changed, ended: changed }), above, stop };
}

type Listener = (entry: Entry, entries: readonly Entry[]) => void;

function createEntries(
  say: Progress["say"],
  on: { readonly waits?: Listener; readonly began: Listener; readonly ended: Listener },
): Progress {
  let entries: Entry[] = [];
  return {
    say,
    expect(name, usualSeconds) {
      // Everything that was expected before has been shown to its end.
      if (entries.every(({ endedAt }) => endedAt !== undefined)) entries = [];
      const entry: Entry = { name, usualSeconds };
      entries.push(entry);
      on.waits?.(entry, entries);
      return {
        begin(work) {
          Object.assign(entry, { work, usualSeconds: work.usualSeconds, beganAt: Date.now(), detail: undefined });
          on.began(entry, entries);
        },
        wait(usual) {
          Object.assign(entry, { work: undefined, usualSeconds: usual, beganAt: undefined });
          on.waits?.(entry, entries);
        },
        update: (detail) => void (entry.detail = detail),
        end(outcome) {
          Object.assign(entry, { endedAt: Date.now(), failed: outcome === "failed" });
          on.ended(entry, entries);
        },
      };
    },
  };
}

function linesOf(entries: readonly Entry[], most: number): string[] {
  if (entries.length === 0) return [];
  const there = entries.filter(({ endedAt, failed }) => endedAt !== undefined && !failed);
  const open = entries.filter(({ endedAt }) => endedAt === undefined);
  const width = Math.max(...entries.map(({ name, work }) => (work?.title ?? name).length));
  const parts = (entries.length < most ? entries : open).slice(0, Math.max(most - 1, 0)).map((entry) => {
    const usual = entry.endedAt === undefined && entry.usualSeconds !== undefined ? usually(entry.usualSeconds) : "";
    return `  ${(entry.work?.title ?? entry.name).padEnd(width)}  ${stateOf(entry).padEnd(36)}${usual}`.trimEnd();
  });
  const seconds = open.reduce((sum, entry) => sum + secondsLeft(entry), 0);
  const left = seconds > 0 ? `, ${usually(seconds)} more` : "";
  return [...parts, `  ${there.length} of ${entries.length} programs are there${left}`];
}

function stateOf({ work, beganAt, endedAt, detail, failed }: Entry): string {
  if (failed) return "failed";
  if (work === undefined || beganAt === undefined) return endedAt === undefined ? "waiting" : "there";
  const took = clock((endedAt ?? Date.now()) - beganAt);
  return endedAt === undefined ? [work.doing, detail, took].filter(Boolean).join("  ") : `${past[work.doing]}  ${took}`;
}

function secondsLeft({ usualSeconds = 0, beganAt }: Entry): number {
  return beganAt === undefined ? usualSeconds : Math.max(usualSeconds - (Date.now() - beganAt) / 1_000, 0);
}

/** What follows the part that begins, for a user who sees no list. */
function toCome(entries: readonly Entry[]): string {
  const waiting = entries.filter(({ beganAt, endedAt }) => beganAt === undefined && endedAt === undefined);
  const seconds = waiting.reduce((sum, entry) => sum + secondsLeft(entry), 0);
  if (waiting.length === 0) return "";
  return `; then ${waiting.length} more${seconds > 0 ? `, ${usually(seconds)}` : ""}`;
}

function usually(seconds: number): string {
  return seconds < 90 ? `usually ${Math.round(seconds)} s` : `usually ${Math.round(seconds / 60)} min`;
}

function clock(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
