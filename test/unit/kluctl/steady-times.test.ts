/** Times of results while the machine's clock is set back. */
import { expect, test } from "vitest";
import { withSteadyTimes } from "../../../src/kluctl/steady-times.ts";
import type { CommandResult, DeployOptions, Run, ValidateResult } from "../../../src/model.ts";
import type { Kluctl } from "../../../src/ports.ts";

const now = Date.parse("2026-03-01T12:00:00.500Z");
const { signal } = new AbortController();
const run = {} as Run;
const options = {} as DeployOptions;

function kluctlWhoseTimesAre(times: { startTime: string; endTime: string }) {
  const deployed = { document: { id: "1", command: { command: "deploy", ...times } } } as unknown as CommandResult;
  const validated = { document: { ready: true, ...times } } as unknown as ValidateResult;
  const kluctl = { deploy: async () => deployed, validate: async () => validated } as unknown as Kluctl;
  return { ...withSteadyTimes(kluctl, { now: () => now }), deployed, validated };
}

test("a result that seems to have ended before it began is moved to now, with its duration", async () => {
  const kluctl = kluctlWhoseTimesAre({ startTime: "2026-03-01T11:00:00Z", endTime: "2026-03-01T11:00:04Z" });
  const moved = { startTime: "2026-03-01T11:59:56Z", endTime: "2026-03-01T12:00:00Z" };
  expect((await kluctl.deploy(run, options, signal)).document).toEqual({
    id: "1",
    command: { command: "deploy", ...moved },
  });
  expect((await kluctl.validate(run, signal)).document).toEqual({ ready: true, ...moved });
});

test("other results stay as kluctl wrote them, also if its times are in whole seconds", async () => {
  for (const endTime of ["2026-03-01T12:00:00Z", "2026-03-01T12:00:09Z", "2026-03-01T12:00:00.7+00:00"]) {
    const kluctl = kluctlWhoseTimesAre({ startTime: "2026-03-01T12:00:00Z", endTime });
    expect(await kluctl.deploy(run, options, signal)).toBe(kluctl.deployed);
    expect(await kluctl.validate(run, signal)).toBe(kluctl.validated);
  }
});

test("a time that cannot be read counts as now", async () => {
  const kluctl = kluctlWhoseTimesAre({ startTime: "", endTime: "soon" });
  const { command } = (await kluctl.deploy(run, options, signal)).document as { command: object };
  expect(command).toMatchObject({ endTime: "2026-03-01T12:00:00Z" });
});
