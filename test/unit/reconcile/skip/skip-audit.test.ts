import { expect, test, vi } from "vitest";
import { PrepareError } from "../../../../src/errors.ts";
import type { CommandResult } from "../../../../src/model.ts";
import { createSkipAudit, type Skip } from "../../../../src/skipping/skip-audit.ts";
import { anObject, aResult } from "../../../support/deployments.ts";
import { fakeSecrets, fakeSources, silentLog } from "../../../support/fakes.ts";
import { aSkippingWorld, aStanding } from "../../../support/skipping.ts";
import { patience } from "../../../support/patience.ts";

const changed = anObject({ changes: [{ type: "update", jsonPath: "data.a" }] });
const expected = aResult({ objectsHash: "hash-1" });

/** Audits one skip, followed by a comparison with this result. */
async function audit(
  found: CommandResult | Error,
  { overtaken = [], ...more }: Partial<Skip> & { overtaken?: (string | undefined)[] } = {},
) {
  const [audited, wrong]: [string[], string[]] = [[], []];
  const sources = fakeSources();
  const audits = createSkipAudit({
    oneIn: () => 1,
    sources,
    secrets: fakeSecrets({}),
    kluctl: { diff: () => (found instanceof Error ? Promise.reject(found) : Promise.resolve(found)) },
    readIdentity: () => Promise.resolve({ secrets: [] }),
    dryRun: () => false,
    newId: () => "id",
    log: silentLog,
    observe: { audited: (result) => void audited.push(result), wrongSkip: (believed) => void wrong.push(believed) },
    settleMs: 0,
  });
  const answers = [...overtaken];
  audits.note({
    deployment: aStanding(),
    objectsHash: "hash-1",
    commit: "c1",
    movedFrom: undefined,
    evidence: "",
    whyOvertaken: () => Promise.resolve(answers.shift()),
    ...more,
  });
  await vi.waitFor(() => expect(audited).toHaveLength(1), patience);
  expect(sources.released).toHaveLength(1);
  return { result: audited[0], wrong };
}

test("a skip was right if kluctl finds the expected state", async () => {
  expect(await audit(expected)).toEqual({ result: "right", wrong: [] });
});

test.each<[string, CommandResult | Error, Partial<Skip>, string]>([
  ["other objects are rendered", aResult({ objectsHash: "hash-2" }), {}, "inputs"],
  ["other objects are rendered at another commit", aResult({ objectsHash: "hash-2" }), { movedFrom: "c0" }, "move"],
  ["nothing is rendered any more", new PrepareError("no such variable"), {}, "inputs"],
  ["an object differs", { ...expected, objects: [changed] }, {}, "objects"],
  ["an object differs at another commit", { ...expected, objects: [changed] }, { movedFrom: "c0" }, "objects"],
])("a skip was wrong if %s", async (_, found, skip, believed) => {
  expect(await audit(found, skip)).toEqual({ result: "wrong", wrong: [believed] });
});

test("a change after the skip does not make it wrong, even if a watch reports it later", async () => {
  const found = aResult({ objectsHash: "hash-2" });
  expect(await audit(found, { overtaken: ["a Secret changed"] })).toEqual({ result: "overtaken", wrong: [] });
  expect(await audit(found, { overtaken: [undefined, "an object changed"] })).toEqual({
    result: "overtaken",
    wrong: [],
  });
});

test("if kluctl cannot compare, the audit has no verdict on the skip", async () => {
  expect(await audit(new Error("the API server does not respond"))).toEqual({ result: "failed", wrong: [] });
});

test("a skip is recorded with all its evidence, and the audit checks that evidence from scratch", async () => {
  const skips: Skip[] = [];
  const world = aSkippingWorld(aStanding(), { audit: { note: (skip) => void skips.push(skip) } });
  await world.loop();
  expect(await world.ask()).toBe("skipped");
  const [skip] = skips;
  expect(skip).toMatchObject({ objectsHash: "hash-1", commit: "c1", movedFrom: undefined });
  expect(await skip?.whyOvertaken()).toBeUndefined();
  // All of this has changed more recently than the cached answers that a skip may use.
  world.facts.text = "1.33";
  expect(await skip?.whyOvertaken()).toContain("the cluster");
  world.facts.text = "1.32";
  world.facts.kluctl = "2.29.0";
  expect(await skip?.whyOvertaken()).toContain("kluctl");
  world.facts.kluctl = "2.28.2";
  world.sources.refs["refs/heads/main"] = "c2";
  expect(await skip?.whyOvertaken()).toContain("c2");
  world.sources.refs["refs/heads/main"] = "c1";
  expect(await skip?.whyOvertaken()).toBeUndefined();
  await world.loop();
  expect(await skip?.whyOvertaken()).toContain("it was reconciled");
});
