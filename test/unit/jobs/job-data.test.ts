import { expect, test } from "vitest";
import { parseJobData, toJobData } from "../../../jobs/job-data.ts";
import { aRequest } from "../../support/jobs.ts";

test("a request comes out of Redis as it went in", () => {
  const request = aRequest("shop", "push", { delivery: "d1", receivedAt: 1 });
  expect(parseJobData("reconcile", JSON.parse(JSON.stringify(toJobData(request))))).toEqual(request);
  expect(parseJobData("reconcile", JSON.parse(JSON.stringify(toJobData(aRequest("shop", "interval")))))).toEqual(
    aRequest("shop", "interval"),
  );
});

test("what another version or somebody else wrote is no request", () => {
  const good = toJobData(aRequest());
  for (const bad of [
    undefined,
    null,
    [],
    "reconcile",
    {},
    { ...good, v: 2 },
    { ...good, v: undefined },
    { ...good, kind: "exec" },
    { ...good, cause: "whim" },
    { ...good, namespace: "a/b" },
    { ...good, name: "../../etc" },
    { ...good, name: "a".repeat(254) },
    { ...good, name: "--help\n" },
    { ...good, receivedAt: "yesterday" },
  ]) {
    expect(parseJobData("reconcile", bad), JSON.stringify(bad)).toBeUndefined();
  }
});
