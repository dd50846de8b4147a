import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLines, createView } from "../../../dev/progress.ts";

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

const build = (title: string, usualSeconds: number) =>
  ({ doing: "building", title, from: "from Go modules", usualSeconds }) as const;

test("without a terminal, a part is reported when it begins, with what follows, and when it is there", async () => {
  const lines: string[] = [];
  const progress = createLines((line) => void lines.push(line));
  const [etcd, gitea] = [progress.expect("etcd", 60), progress.expect("gitea", 210)];
  expect(lines).toEqual([]);

  etcd.begin(build("etcd 3.6.8", 60));
  etcd.update("compiling");
  await vi.advanceTimersByTimeAsync(61_000);
  etcd.end("there");
  gitea.begin({ doing: "downloading", title: "gitea 1.26.0" });
  gitea.wait(210);
  gitea.begin(build("gitea 1.26.0", 210));
  gitea.end("failed");

  expect(lines).toEqual([
    "building etcd 3.6.8 from Go modules (usually 60 s, once; then 1 more, usually 4 min) …",
    "built etcd 3.6.8 (61 s)",
    "downloading gitea 1.26.0 (once) …",
    "building gitea 1.26.0 from Go modules (usually 4 min, once) …",
  ]);
});

test("a part that another process has obtained is not reported", () => {
  const lines: string[] = [];
  createLines((line) => void lines.push(line))
    .expect("etcd", 60)
    .end("there");
  expect(lines).toEqual([]);
});

test("on a terminal, every part has a line that is redrawn, and other lines stay above them", async () => {
  const { view, screen } = useTerminal({ columns: 80, rows: 20 });
  const [kluctl, etcd, gitea] = [view.expect("kluctl", 180), view.expect("etcd", 60), view.expect("gitea")];
  kluctl.begin(build("kluctl 2.22.1", 180));
  gitea.begin({ doing: "downloading", title: "gitea 1.26.0" });
  gitea.update("12.0 of 110.3 MB");
  await vi.advanceTimersByTimeAsync(65_000);
  view.say("Redis is up (0.5 s)");
  expect(screen()).toEqual([
    "Redis is up (0.5 s)",
    "  kluctl 2.22.1  building  1:05                      usually 3 min",
    "  etcd           waiting                             usually 60 s",
    "  gitea 1.26.0   downloading  12.0 of 110.3 MB  1:05",
    "  0 of 3 programs are there, usually 3 min more",
  ]);

  kluctl.end("there");
  gitea.end("there");
  etcd.end("failed");
  view.say("the next line");
  expect(screen()).toEqual([
    "Redis is up (0.5 s)",
    "  kluctl 2.22.1  built  1:05",
    "  etcd           failed",
    "  gitea 1.26.0   downloaded  1:05",
    "  2 of 3 programs are there",
    "the next line",
  ]);
  expect(vi.getTimerCount()).toBe(0);
});

test("on a small terminal no line wraps or scrolls out, and parts that are there are left out", () => {
  const { view, screen } = useTerminal({ columns: 30, rows: 5 });
  const parts = ["kluctl", "etcd", "kwok", "gitea"].map((name) => view.expect(name, 60));
  parts[0]?.end("there");
  parts[1]?.begin(build("etcd 3.6.8", 60));
  expect(screen()).toEqual(["  etcd 3.6.8  building  0:00", "  kwok        waiting", "  1 of 4 programs are there,"]);
});

test("a stopped view leaves what it shows, and draws no more", async () => {
  const { view, screen } = useTerminal({ columns: 80, rows: 20 });
  view.expect("etcd", 60).begin(build("etcd 3.6.8", 60));
  const before = screen();
  view.stop();
  await vi.advanceTimersByTimeAsync(5_000);
  view.say("the end");
  expect(screen()).toEqual([...before, "the end"]);
});

test.each([
  ["is none", { isTTY: false }, {}],
  ["cannot move its cursor", { isTTY: true }, { TERM: "dumb" }],
])("a terminal that %s gets lines", (_, terminal, env) => {
  const { view, written } = useTerminal({ columns: 80, rows: 20, ...terminal }, env);
  view.expect("etcd", 60).begin(build("etcd 3.6.8", 60));
  expect(written()).toBe("building etcd 3.6.8 from Go modules (usually 60 s, once) …\n");
});

/** A terminal that knows the two sequences that the view uses. */
function useTerminal(
  { isTTY = true, ...size }: { isTTY?: boolean; columns: number; rows: number },
  env: NodeJS.ProcessEnv = {},
) {
  let written = "";
  const write = (text: string) => Boolean((written += text));
  const view = createView({ isTTY, ...size, write: write as NodeJS.WriteStream["write"] }, env);
  const screen = () => {
    const lines: string[] = [];
    for (const [, up, line = ""] of written.matchAll(/\u001b\[(\d+)A\u001b\[J|([^\n\u001b]*)\n/g)) {
      if (up === undefined) lines.push(line);
      else lines.splice(lines.length - Number(up));
    }
    return lines;
  };
  return { view, screen, written: () => written };
}
