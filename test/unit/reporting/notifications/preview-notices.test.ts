import { expect, test } from "vitest";
import type { Report } from "../../../../src/model/report.ts";
import { findFailedPreviews } from "../../../../src/reporting/notifications/preview-notices.ts";
import { aPreview, aReport } from "../../../support/fake-reports.ts";
import { aNotifiedWorld, commitA, deployed, ofRepository } from "../../../support/notified.ts";

const prod = deployed("prod", commitA, ofRepository("shop"));
const failing = aReport({ previews: [aPreview({ state: "failed", failure: "cannot be rendered" })] });
const fine = aReport();
const minute = 60_000;

function noticesOf(...reports: readonly Report[]) {
  const found = {
    open: () => Promise.resolve(reports.map(({ pullRequest }) => ({ pullRequest }))),
    find: ({ number }: Report["pullRequest"]) =>
      Promise.resolve(reports.find(({ pullRequest }) => pullRequest.number === number)),
  };
  return findFailedPreviews(found, [prod]);
}

/** People who hear of the deployment, and of what the stored reports say. */
async function aReportedWorld(edits: boolean) {
  const world = aNotifiedWorld({ edits });
  world.have(prod);
  await world.hears();
  return {
    async hears(reports: readonly Report[], afterMs = minute): Promise<string[]> {
      world.alsoHave(...(await noticesOf(...reports)));
      return world.hears(afterMs);
    },
  };
}

test("a pull request is open, over or unknown, as its report says", async () => {
  const states = async (report: Report) => (await noticesOf(report)).map(({ state }) => state);
  expect(await states(failing)).toEqual(["open"]);
  expect(await states(fine)).toEqual(["over"]);
  expect(await states({ ...failing, state: "working" })).toEqual(["progress"]);
  expect(await states({ ...failing, state: "merged" })).toEqual(["over"]);
  expect(await states({ ...failing, obstacle: { kind: "fork" } })).toEqual([]);
});

test("a failed preview is one message, and a fixed one changes it where that is possible", async () => {
  const chat = await aReportedWorld(true);
  expect(await chat.hears([failing])).toEqual(["sent: org/shop#7: the preview failed"]);
  expect(await chat.hears([{ ...failing, state: "working" }])).toEqual([]);
  expect(await chat.hears([fine])).toEqual(["changed: org/shop#7: the preview does not fail any more"]);
  expect(await chat.hears([failing])).toEqual(["sent: org/shop#7: the preview failed"]);

  const mail = await aReportedWorld(false);
  expect(await mail.hears([failing])).toEqual(["sent: org/shop#7: the preview failed"]);
  expect(await mail.hears([fine])).toEqual([]);
  expect(await mail.hears([failing])).toEqual(["sent: org/shop#7: the preview failed"]);
});

test.each([true, false])(
  "if Redis loses the reports, nothing is sent again (messages can change: %s)",
  async (edits) => {
    const world = await aReportedWorld(edits);
    await world.hears([failing]);
    expect(await world.hears([])).toEqual([]);
    expect(await world.hears([], 5 * minute)).toEqual([]);
    expect(await world.hears([failing])).toEqual([]);
    // A second loss counts from its own beginning.
    expect(await world.hears([], 20 * minute)).toEqual([]);
    expect(await world.hears([], 10 * minute)).toEqual([]);
    expect(await world.hears([failing])).toEqual([]);
  },
);

test("a pull request whose report is gone for good needs nobody any more", async () => {
  const world = await aReportedWorld(true);
  await world.hears([failing]);
  expect(await world.hears([])).toEqual([]);
  expect(await world.hears([], 16 * minute)).toEqual(["changed: org/shop#7: the preview does not fail any more"]);
  expect(await world.hears([])).toEqual([]);
});
