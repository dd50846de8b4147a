import { expect, test } from "vitest";
import { annotation, type ResultObject } from "../../../src/model.ts";
import type { LoopReport } from "../../../src/reconcile/loop.ts";
import { notesServedUrl } from "../../../src/reconcile/note-served-url.ts";
import type { Project } from "../../../src/reconcile/project.ts";
import type { Work } from "../../../src/reconcile/work.ts";
import { aDeployment, anObject, aResult } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

const url = "http://shop.example.com/";
const ingress = (host: string) =>
  anObject({
    ref: { group: "networking.k8s.io", kind: "Ingress", name: "web", namespace: "shop" },
    rendered: JSON.stringify({ spec: { rules: [{ host }] } }),
  });
const secret = (value: string) =>
  anObject({
    ref: { kind: "Secret", name: "login", namespace: "shop" },
    rendered: JSON.stringify({ kind: "Secret", stringData: { host: value } }),
  });

interface Options {
  readonly objects?: readonly ResultObject[];
  readonly recorded?: string;
  readonly ends?: "deployed" | "clean" | "waiting" | "failed";
  readonly isWanted?: boolean;
  readonly asked?: Work["asked"];
  readonly fails?: boolean;
}

/** Runs one reconciliation and returns what was written. */
async function run({
  objects = [ingress("shop.example.com")],
  recorded,
  ends = "deployed",
  isWanted = true,
  asked,
  fails,
}: Options) {
  const written: (string | undefined)[] = [];
  const found = { rendered: aResult({ objects }), deployed: ends === "deployed", clean: ends === "clean" };
  const report = { outcome: { kind: "done" }, ...(ends !== "failed" && { found }) } as unknown as LoopReport;
  const { settleProject } = notesServedUrl({
    deployments: {
      setAnnotation(_, name, value) {
        expect(name).toBe(annotation.servedUrl);
        written.push(value);
        return fails ? Promise.reject(new Error("forbidden")) : Promise.resolve();
      },
    },
    isWanted: () => isWanted,
    log: silentLog,
  });
  const annotations: Record<string, string> = recorded === undefined ? {} : { [annotation.servedUrl]: recorded };
  const work = { deployment: aDeployment({ annotations }), asked, signal: new AbortController().signal };
  const settled = settleProject?.(() => Promise.resolve(report), work as unknown as Work, {} as Project);
  expect(await settled).toBe(report);
  return written;
}

test("where the Ingress serves what is in the cluster is recorded once, and removed with it", async () => {
  expect(await run({})).toEqual([url]);
  expect(await run({ ends: "clean" })).toEqual([url]);
  expect(await run({ recorded: url })).toEqual([]);
  expect(await run({ recorded: url, objects: [] })).toEqual([undefined]);
  expect(await run({ recorded: url, objects: [ingress("new.example.com")] })).toEqual(["http://new.example.com/"]);
});

test("what waits for approval, failed, or is deployed with one-off overrides is not recorded", async () => {
  expect(await run({ ends: "waiting" })).toEqual([]);
  expect(await run({ ends: "failed" })).toEqual([]);
  expect(await run({ asked: { kind: "deploy", overridesPatch: {} } })).toEqual([]);
});

test("nothing is recorded while nothing reads it", async () => {
  expect(await run({ isWanted: false })).toEqual([]);
});

test("a URL that contains a value of a Secret is not recorded, and an earlier one is removed", async () => {
  const objects = [ingress("q7fk3xw9.example.com"), secret("q7fk3xw9")];
  expect(await run({ objects })).toEqual([]);
  expect(await run({ objects, recorded: url })).toEqual([undefined]);
});

test("a record that cannot be written does not fail the reconciliation", async () => {
  expect(await run({ fails: true })).toHaveLength(1);
});
