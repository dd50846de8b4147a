import { expect, test } from "vitest";
import { annotation, type Deployment } from "../../../src/model.ts";
import { formatIncludedCommits, includedCommitsOf } from "../../../src/model/included-commits.ts";
import type { LoopReport } from "../../../src/reconcile/loop.ts";
import { notesIncludedCommits } from "../../../src/reconcile/note-included-commits.ts";
import type { Project } from "../../../src/reconcile/project.ts";
import type { Work } from "../../../src/reconcile/work.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";

const url = "https://git.example.com/org/library";
const [older, newer] = ["a".repeat(40), "b".repeat(40)] as const;
const shown = { [annotation.includes]: url, [annotation.previewIn]: url };

interface Options {
  readonly deployment?: Deployment;
  readonly asked?: Work["asked"];
  readonly fails?: boolean;
  readonly away?: boolean;
  readonly lost?: boolean;
}

/** Runs one reconciliation, during which the branch moves, and returns what was written. */
async function run({ deployment = aDeployment({ annotations: shown }), asked, fails, away, lost }: Options = {}) {
  const written: (string | undefined)[] = [];
  const sources = fakeSources({ "refs/heads/main": older, "refs/heads/next": newer, "refs/tags/v1": newer });
  if (away) sources.failing.error = new Error("no route to host");
  const { settleProject } = notesIncludedCommits({
    deployments: {
      setAnnotation(_, name, value) {
        expect(name).toBe(annotation.includedCommits);
        return Promise.resolve(void written.push(value));
      },
    },
    queue: { lastMove: () => Promise.resolve("a move") },
    secrets: fakeSecrets(),
    sources,
    log: silentLog,
  });
  const ended = new AbortController();
  if (lost) ended.abort();
  const signal = new AbortController().signal;
  const work = { deployment, asked, signal, held: { lost: ended.signal }, log: silentLog } as unknown as Work;
  const next = () => {
    sources.refs["refs/heads/main"] = newer;
    return fails ? Promise.reject(new Error("cannot be rendered")) : Promise.resolve({} as LoopReport);
  };
  const settled = settleProject?.(next, work, {} as Project);
  if (fails) await expect(settled).rejects.toThrow("cannot be rendered");
  else await settled;
  return { written, sources };
}

test("what git had before the project was rendered is recorded, also if that fails", async () => {
  const { written, sources } = await run();
  expect(written).toEqual([`${url} refs/heads/main ${older}`]);
  expect(sources.required).toEqual([{ since: "a move", maxAgeMs: 30_000 }]);
  expect((await run({ fails: true })).written).toEqual(written);
});

test("branches and tags are recorded by name, and commits that a project is pinned to are not", async () => {
  const includes = `${url} refs/heads/next refs/tags/next\n${url} refs/tags/v1\n${url} ${older}`;
  const annotations = { ...shown, [annotation.includes]: includes };
  expect((await run({ deployment: aDeployment({ annotations }) })).written).toEqual([
    `${url} refs/heads/next ${newer}\n${url} refs/tags/v1 ${newer}`,
  ]);
});

test("for what no pull request may show, the last answer of the sweep is recent enough", async () => {
  const { written, sources } = await run({ deployment: aDeployment({ annotations: { [annotation.includes]: url } }) });
  expect(written).toEqual([`${url} refs/heads/main ${older}`]);
  expect(sources.required).toEqual([{ since: "a move", maxAgeMs: 300_000 }]);
});

test("git is not asked if nothing that can move is included, and an old record of it is removed", async () => {
  const annotations = {
    [annotation.includes]: `${url} ${older}\noci://registry.example.com/org/library latest`,
    [annotation.includedCommits]: `${url} refs/heads/main ${older}`,
  };
  const { written, sources } = await run({ deployment: aDeployment({ annotations }) });
  expect(written).toEqual([undefined]);
  expect(sources.asked).toEqual([]);
});

test.each<[string, Options]>([
  [
    "it is recorded already",
    {
      deployment: aDeployment({
        annotations: { ...shown, [annotation.includedCommits]: `${url} refs/heads/main ${older}` },
      }),
    },
  ],
  ["git does not answer", { away: true }],
  ["a user renders a working copy", { asked: { kind: "deploy", overridesPatch: {} } }],
  ["another server holds the lease now", { lost: true }],
])("nothing is written if %s", async (_, options) => {
  expect((await run(options)).written).toEqual([]);
});

test("the record is read back, and text that is no record is ignored", () => {
  const commits = [
    { url, ref: "refs/heads/main", commit: older },
    { url: "https://git.example.com/org/base", ref: "refs/heads/main", commit: newer },
  ];
  const text = formatIncludedCommits(commits);
  const read = (value: string) => includedCommitsOf({ annotations: { [annotation.includedCommits]: value } });
  expect(read(text!)).toEqual([...commits].reverse());
  expect(read(`${url} main ${older}\n\n${url} refs/heads/main abc\nrefs/heads/main ${older}`)).toEqual([]);
  expect(formatIncludedCommits([])).toBeUndefined();
  expect(read(formatIncludedCommits(Array.from({ length: 50 }, () => commits[0]!))!)).toHaveLength(20);
});
