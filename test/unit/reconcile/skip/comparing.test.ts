import { expect, test } from "vitest";
import { annotation, type ChangedPaths, type GitDeployment, type ObjectVersion } from "../../../../src/model.ts";
import { type Cluster, type LastSeen, whyCompare, whyUnlikely } from "../../../../src/skipping/comparing.ts";
import { aDeployment, aSummary, aValidation } from "../../../support/deployments.ts";
import { ready } from "../../../support/reconciling.ts";
import { aStanding, settingsId, settingsVersion } from "../../../support/skipping.ts";

const last: LastSeen = {
  uid: "uid-prod",
  generation: 1,
  deployResultId: "result-0",
  objectsHash: "hash-1",
  objects: new Map([[settingsId, settingsVersion]]),
  complete: true,
  hooks: false,
  waits: false,
};
const cluster = (over: Record<string, ObjectVersion | undefined> = {}): Cluster => ({
  objects: new Map(
    Object.entries({ [settingsId]: settingsVersion, ...over }).flatMap(([id, version]) =>
      version === undefined ? [] : [[id, version] as const],
    ),
  ),
});

test("a deployment whose objects are untouched since the last deploy is deployed without a comparison", () => {
  expect(whyCompare(aStanding(), last, cluster())).toBeUndefined();
});

test("a status written by a controller does not count as touched", () => {
  const known = { ...last, objects: new Map([[settingsId, { ...settingsVersion, fingerprint: "f" }]]) };
  const now = cluster({ [settingsId]: { ...settingsVersion, resourceVersion: "11", fingerprint: "f" } });
  expect(whyCompare(aStanding(), known, now)).toBeUndefined();
});

type Standing = Parameters<typeof aStanding>[0];
type Case = readonly [string, { of?: Standing; last?: Partial<LastSeen>; cluster?: Cluster }, RegExp];

test.each<Case>([
  ["changes have to be approved", { of: { spec: { manual: true } } }, /approval/],
  ["somebody confirms a prune", { of: { annotations: { [annotation.confirmPrune]: "x" } } }, /confirm-prune/],
  ["changes are left to the intervals", { of: { spec: { deployOnChanges: false } } }, /because of changes/],
  ["only images are poked", { of: { spec: { deployMode: "poke-images" } } }, /poke-images/],
  ["it is a dry run", { of: { spec: { dryRun: true } } }, /dry run/],
  ["it is another resource", { of: { uid: "another" } }, /reconciled it since/],
  ["it was never deployed", { of: { status: { lastDeployResult: undefined } } }, /reconciled it since/],
  [
    "another server has deployed it",
    { of: { status: { lastDeployResult: aSummary({ id: "x" }) } } },
    /reconciled it since/,
  ],
  [
    "its last deploy had errors",
    { of: { status: { lastDeployResult: aSummary({ errors: 1 }) } } },
    /reconciled it since/,
  ],
  ["somebody else rendered another", { of: { status: { lastObjectsHash: "hash-2" } } }, /reconciled it since/],
  ["its spec changed", { of: { generation: 2 } }, /reconciled it since/],
  ["its spec has not been seen", { of: { status: { observedGeneration: 0 } } }, /reconciled it since/],
  ["it has drifted", { of: { status: { lastDriftDetectionResultMessage: "1 chg" } } }, /differs: 1 chg/],
  [
    "nobody knows whether it has",
    { of: { status: { lastDriftDetectionResultMessage: undefined } } },
    /differs: unknown/,
  ],
  ["an object is missing in what is known", { last: { complete: false } }, /kluctl did not report/],
  ["it has hooks", { last: { hooks: true } }, /hooks/],
  ["its objects are not watched", { cluster: { unknown: "may not list Widgets" } }, /may not list Widgets/],
  ["an object is gone", { cluster: cluster({ [settingsId]: undefined }) }, /missing/],
  ["an object is new", { cluster: cluster({ "/Secret/shop/more": settingsVersion }) }, /new/],
  [
    "an object was edited",
    { cluster: cluster({ [settingsId]: { ...settingsVersion, resourceVersion: "11" } }) },
    /changed/,
  ],
])("compared first: %s", (_, given, why) => {
  const found = whyCompare(aStanding(given.of), { ...last, ...given.last }, given.cluster ?? cluster());
  expect(found).toMatch(why);
});

test("objects that the deploy waits for must be known to be ready", () => {
  const waits = { ...last, waits: true };
  const of = (validate: boolean, errors: number, status: "True" | "False" = "True") =>
    aStanding({
      spec: { validate },
      status: { lastValidateResult: aValidation({ errors }), conditions: [{ ...ready, status }] },
    });
  expect(whyCompare(of(true, 0), waits, cluster())).toBeUndefined();
  expect(whyCompare(of(true, 1), waits, cluster())).toContain("wait");
  expect(whyCompare(of(true, 0, "False"), waits, cluster())).toContain("wait");
  expect(whyCompare(of(false, 0), waits, cluster())).toContain("wait");
});

const at = (path: string, annotations: GitDeployment["annotations"] = {}) =>
  aDeployment({
    annotations,
    spec: { source: { url: "https://git.example.com/org/shop", ref: { branch: "main" }, path } },
  });
const changed = (...paths: string[]): ChangedPaths => ({ paths, complete: true });

test("a commit that changes a file of the project probably changes an object", () => {
  expect(whyUnlikely(at("apps/shop"), changed("README.md", "apps/shop/app.yaml"))).toBeUndefined();
  expect(whyUnlikely(at(""), changed("app.yaml"))).toBeUndefined();
  const shared = at("apps/shop", { [annotation.paths]: "shared/**" });
  expect(whyUnlikely(shared, changed("shared/vars.yaml"))).toBeUndefined();
});

test.each<[string, GitDeployment, ChangedPaths]>([
  ["elsewhere", at("apps/shop"), changed("apps/search/app.yaml")],
  ["in more files than git tells", at("apps/shop"), { paths: ["apps/shop/app.yaml"], complete: false }],
  ["in nothing", at("apps/shop"), changed()],
  ["in what has the discriminator", at("apps/shop"), changed("apps/shop/app.yaml", "apps/shop/.kluctl.yaml")],
  ["in what kluctl finds above the project", at("apps/shop"), changed("apps/shop/app.yaml", ".sops.yaml")],
])("a commit is compared first if it changes something %s", (_, deployment, paths) => {
  expect(whyUnlikely(deployment, paths)).toBeDefined();
});
