import { expect, test } from "vitest";
import { stateOf } from "../../../src/views/state.ts";
import { selectDeployments, withNewerCommits } from "../../../ui/select-deployments.ts";
import { aDeployment } from "../../support/deployments.ts";

interface Given {
  readonly ready?: "True" | "False" | "Unknown";
  readonly drift?: string;
  readonly suspend?: boolean;
}

function shown(name: string, { ready = "True", drift = "no drift", suspend = false }: Given = {}) {
  const condition = { type: "Ready", status: ready, reason: "", message: "deploy failed", lastTransitionTime: "" };
  const deployment = aDeployment({
    key: { namespace: "shop", name },
    spec: { suspend },
    status: { conditions: [condition], observedGeneration: 1, lastDriftDetectionResultMessage: drift },
  });
  return stateOf(deployment, 0);
}

const all = [
  shown("a-healthy"),
  shown("b-suspended", { suspend: true }),
  shown("c-failed", { ready: "False" }),
  shown("d-failed-with-drift", { ready: "False", drift: "1 chg" }),
  shown("e-drifted", { drift: "2 chg" }),
  shown("f-suspended-with-drift", { suspend: true, drift: "1 new" }),
  shown("g-healthy"),
];
const names = (...of: Parameters<typeof selectDeployments>) => selectDeployments(...of).map(({ name }) => name);

test("deployments with drift come before healthy and suspended ones without, and first among those that fail", () => {
  expect(names(all, "", "")).toEqual([
    "d-failed-with-drift",
    "c-failed",
    "e-drifted",
    "f-suspended-with-drift",
    "b-suspended",
    "a-healthy",
    "g-healthy",
  ]);
});

test("a filter and all words of a search have to match", () => {
  expect(names(all, "", "drift")).toEqual(["d-failed-with-drift", "e-drifted", "f-suspended-with-drift"]);
  expect(names(all, "", "suspended")).toEqual(["f-suspended-with-drift", "b-suspended"]);
  expect(names(all, "SHOP/ healthy", "")).toEqual(["a-healthy", "g-healthy"]);
  expect(names(all, "shop nothing", "")).toEqual([]);
});

test("a newer commit that waits is said, and found by its reason", () => {
  const newer = { namespace: "shop", name: "a-healthy", commit: "c".repeat(40), why: "queued" };
  const shownToo = withNewerCommits(all, [newer]);
  expect(shownToo.map(({ why }) => why).filter((why) => why?.includes("newer"))).toEqual([
    "newer commit ccccccc waits: queued",
  ]);
  expect(names(shownToo, "queued", "")).toEqual(["a-healthy"]);
  // Nothing else about it changes: it is as healthy as before.
  expect(names(shownToo, "", "")).toEqual(names(all, "", ""));
  expect(withNewerCommits(all, [])).toBe(all);
  // The last answer stays known while the server does not answer.
  expect(withNewerCommits(all, [newer], "the server does not respond")).toBe(all);
});
