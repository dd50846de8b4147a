import { expect, onTestFinished, test, vi } from "vitest";
import { startFluxPreviewWatch } from "../../../src/reporting/flux-preview-watch.ts";
import { aPreview, aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";
import { aFluxSource, aKustomization, fakeFlux } from "../../support/flux.ts";

const applied = "a".repeat(40);

/** An open pull request into `main` that shows the Kustomization `apps`, and one that shows nothing. */
async function aWatch() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const flux = fakeFlux();
  const [reports, queue] = [fakeReports(), fakeQueue()];
  const { repo } = aFluxSource();
  const shows = aPreview({ kind: "Kustomization", deployment: { namespace: "flux-system", name: "apps" } });
  const other = { forge: "gitea", repoName: "org/shop", number: 8 };
  await reports.save(aReport({ repo, state: "done", previews: [shows] }));
  await reports.save(aReport({ repo, state: "done", previews: [], pullRequest: other }));
  flux.set(aFluxSource(), aKustomization());
  const clock = { now: () => Date.now() };
  onTestFinished(startFluxPreviewWatch({ ...flux, reports, queue, clock, log: silentLog }));
  return {
    flux,
    async requested() {
      await vi.advanceTimersByTimeAsync(5_000);
      const numbers = queue.requests.splice(0).map((one) => ("pullRequest" in one ? one.pullRequest.number : 0));
      return numbers.toSorted((a, b) => a - b);
    },
  };
}

test("a changed spec concerns all pull requests into the branch, what was applied those that show it", async () => {
  const { flux, requested } = await aWatch();
  flux.set(aKustomization("apps", { generation: 2 }));
  expect(await requested()).toEqual([7, 8]);
  flux.set(aKustomization("apps", { generation: 2, applied }));
  expect(await requested()).toEqual([7]);
  flux.set(aKustomization("apps", { generation: 2, applied, ready: ["False", "BuildFailed"] }));
  expect(await requested()).toEqual([]);
});

test("so do new and deleted Kustomizations, but not those that a starting server sees for the first time", async () => {
  const { flux, requested } = await aWatch();
  flux.state.synced = false;
  flux.set(aKustomization("known"));
  expect(await requested()).toEqual([]);
  flux.state.synced = true;
  flux.set(aKustomization("new"));
  expect(await requested()).toEqual([7, 8]);
  flux.remove(aKustomization("new"));
  expect(await requested()).toEqual([7, 8]);
});

test("a GitRepository that follows another branch concerns the pull requests into both; a fetch concerns none", async () => {
  const { flux, requested } = await aWatch();
  flux.set(aFluxSource({ commit: applied }));
  expect(await requested()).toEqual([]);
  flux.set(aFluxSource({ commit: applied, ref: { branch: "release" } }));
  expect(await requested()).toEqual([7, 8]);
});

test("so do its other settings, and the annotations that decide what is shown of a Kustomization; others do not", async () => {
  const { flux, requested } = await aWatch();
  flux.set(aFluxSource({ generation: 2 }));
  expect(await requested()).toEqual([7, 8]);
  for (const annotation of ["towline.dev/preview", "towline.dev/ignore-changes"]) {
    flux.set(aKustomization("apps", { annotations: { [annotation]: "false" } }));
    expect(await requested()).toEqual([7, 8]);
  }
  flux.set(aKustomization("apps", { annotations: { "towline.dev/ignore-changes": "false", other: "x" } }));
  expect(await requested()).toEqual([]);
});
