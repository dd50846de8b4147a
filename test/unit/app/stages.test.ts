import { expect, test } from "vitest";
import { createInStage, stagedKluctl } from "../../../src/app/stages.ts";
import { fakeKluctl } from "../../support/fakes.ts";

test("each stage is recorded with its duration and whether it succeeded", async () => {
  const told: string[] = [];
  const inStage = createInStage({ staged: (stage, result) => void told.push(`${stage} ${result}`) });
  expect(await inStage("source", () => Promise.resolve(1))).toBe(1);
  await expect(inStage("diff", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(
    await inStage(
      "deploy",
      () => Promise.resolve([1]),
      (errors) => errors.length > 0,
    ),
  ).toEqual([1]);
  expect(told).toEqual(["source ok", "diff failed", "deploy failed"]);
});

test("calls that have no stage of their own are passed through unchanged", () => {
  const inStage = createInStage({ staged: () => undefined });
  const kluctl = fakeKluctl();
  expect(stagedKluctl(kluctl, inStage).version).toBe(kluctl.version);
});
