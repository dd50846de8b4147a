import { expect, test } from "vitest";
import { notesIncludes } from "../../../src/reconcile/note-includes.ts";
import { annotation, type Cause, type Deployment, type Request } from "../../../src/model.ts";
import type { LoopReport } from "../../../src/reconcile/loop.ts";
import type { Project } from "../../../src/reconcile/project.ts";
import type { Work } from "../../../src/reconcile/work.ts";
import { aDeployment, aResult, aSpec } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

const url = "https://git.example.com/org/library";
const document = { deployment: { deployments: [{ git: { url, ref: { branch: "main" } } }] } };

/** The values of the annotation for files outside of the path that the last run wrote. */
const noted: (string | undefined)[] = [];
/** What the searches of the last run were given besides the files. */
const named: unknown[] = [];
/** What the last run queued. */
const queued: Request[] = [];

interface Options {
  readonly deployment?: Deployment;
  readonly document?: Readonly<Record<string, unknown>>;
  readonly asked?: Work["asked"];
  readonly found?: boolean;
  readonly fails?: boolean;
  readonly cause?: Cause;
  readonly away?: boolean;
  readonly reads?: readonly string[] | undefined;
}

/** Runs one reconciliation and returns what was written. */
async function run({
  deployment = aDeployment(),
  document,
  asked,
  found = true,
  fails,
  cause = "push",
  away = false,
  ...more
}: Options) {
  queued.length = 0;
  noted.length = 0;
  named.length = 0;
  const written: (string | undefined)[] = [];
  const rendered = aResult({ document: document ?? {} });
  const report = {
    outcome: { kind: "done" },
    ...(found && { found: { rendered, checkout: { root: "/checkout" } } }),
  } as unknown as LoopReport;
  const { settleProject } = notesIncludes({
    deployments: {
      setAnnotation(_, name, value) {
        if (name === annotation.reads) noted.push(value);
        else written.push(value);
        return fails ? Promise.reject(new Error("forbidden")) : Promise.resolve();
      },
    },
    queue: {
      enqueue(requests) {
        if (away) return Promise.reject(new Error("Redis is away"));
        queued.push(...requests);
        return Promise.resolve({ queued: requests.length });
      },
    },
    findReads: (root, path, given) => {
      expect([root, path]).toEqual(["/checkout", deployment.spec.source.path]);
      named.push(given);
      return Promise.resolve("reads" in more ? more.reads : []);
    },
    log: silentLog,
  });
  const work = {
    deployment,
    asked,
    request: { kind: "reconcile", deployment: deployment.key, cause },
    signal: new AbortController().signal,
  } as unknown as Work;
  expect(await settleProject?.(() => Promise.resolve(report), work, {} as Project)).toBe(report);
  return written;
}

test("what a reconciliation included is recorded", async () => {
  expect(await run({ document })).toEqual([`${url} refs/heads/main`]);
});

test("nothing is written if it is recorded already, or there is nothing to record", async () => {
  const annotations = { [annotation.includes]: `${url} refs/heads/main` };
  expect(await run({ document, deployment: aDeployment({ annotations }) })).toEqual([]);
  expect(await run({})).toEqual([]);
});

test("the record is removed once nothing is included any more", async () => {
  expect(await run({ deployment: aDeployment({ annotations: { [annotation.includes]: url } }) })).toEqual([undefined]);
});

test("a reconciliation without a result, or with one-off overrides, changes no record", async () => {
  const deployment = aDeployment({ annotations: { [annotation.includes]: "https://git.example.com/org/old" } });
  expect(await run({ deployment, found: false })).toEqual([]);
  expect(await run({ deployment, document, asked: { kind: "deploy", overridesPatch: {} } })).toEqual([]);
});

test("a record that cannot be written does not fail the reconciliation", async () => {
  expect(await run({ document, fails: true })).toHaveLength(1);
});

test("after a new include, the deployment is looked at again: a push to it may have come in the meantime", async () => {
  await run({ document });
  expect(queued).toMatchObject([{ kind: "reconcile", cause: "include" }]);
  await run({ document, cause: "include" });
  expect(queued).toEqual([]);
  await run({ deployment: aDeployment({ annotations: { [annotation.includes]: url } }) });
  expect(queued).toEqual([]);
});

const inShop = (overrides: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ ...overrides, spec: { ...overrides.spec, source: { ...aSpec().source, path: "apps/shop" } } });

test("the files outside of its path that a project may read are recorded, unless the user says what counts", async () => {
  const reads = ["base", "shared/vars.yaml"];
  const text = "apps/shop/\nbase\nshared/vars.yaml";
  await run({ reads, deployment: inShop() });
  expect(noted).toEqual([text]);
  await run({ reads, deployment: inShop({ annotations: { [annotation.reads]: text } }) });
  expect(noted).toEqual([]);
  const annotations = { [annotation.reads]: "base", [annotation.paths]: "other/**" };
  await run({ reads, deployment: inShop({ annotations }) });
  expect(noted).toEqual([undefined]);
});

test("that a project reads nothing outside of its path, or nobody knows what, is recorded too", async () => {
  await run({ deployment: inShop({ spec: { args: undefined } }) });
  expect([noted, named]).toEqual([["apps/shop/"], [{ paths: [], texts: [] }]]);
  await run({ reads: undefined, deployment: inShop() });
  expect(noted).toEqual(["apps/shop/\n*"]);
  await run({ deployment: aDeployment() });
  expect([noted, named]).toEqual([[], []]);
});

test("paths in the arguments and in kluctl's result are searched as well", async () => {
  const deployment = inShop({ spec: { args: { config: "../../config.yaml" } } });
  await run({ deployment, document: { deployment: { deployments: [{ include: "../../base" }] } } });
  expect(named).toEqual([
    { paths: [{ directory: "", path: "../../base" }], texts: ['{"config":"../../config.yaml"}'] },
  ]);
});

test("nothing is recorded before the second look is queued, so that the next reconciliation queues it if Redis is away", async () => {
  expect(await run({ document, away: true })).toEqual([]);
});
