/** Resources of Flux that spell the URL of one repository in different ways. */
import { expect, test } from "vitest";
import type { RepoId } from "../../../src/model.ts";
import { aFluxSource, aKustomization } from "../../support/flux.ts";
import { applied, before, inProgress, later, old, pushed, useFluxStatuses } from "../../support/flux-statuses.ts";

const spec = { sourceRef: { kind: "GitRepository", name: "ssh" } };
const overSsh = (commit: string) =>
  aFluxSource({ name: "ssh", url: "ssh://git@ssh.git.example.com:443/org/shop", commit });
const nameOf = (name: string) => `towline/kustomization/flux-system/${name}`;

function setUp() {
  const world = useFluxStatuses();
  const { repoName } = world.forge;
  world.forge.repoName = (repo) => repoName(repo.replace(/^ssh\./, "") as RepoId);
  return world;
}

test("they share the statuses of its commits, and none ends those of the others", async () => {
  const { flux, write, news, unsettled } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  flux.set(overSsh(old), aKustomization("infra", { ...before, spec }));
  await write();
  expect(news()).toEqual([
    `${nameOf("apps")} pending queued`,
    `${nameOf("infra")} pending queued`,
    "towline pending 2 deployments: 2 pending",
  ]);

  flux.set(overSsh(pushed), aKustomization("infra", { ...applied, spec }));
  await write();
  expect(news()).toEqual([
    `${nameOf("infra")} success applied`,
    "towline pending 2 deployments: 1 pending, 1 up to date",
  ]);
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);

  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied));
  await write();
  expect(news()).toEqual([`${nameOf("apps")} success applied`, "towline success 2 deployments: 2 up to date"]);
  expect(await unsettled()).toEqual([]);

  const failing = { ...applied, attempting: pushed, ready: ["False", "BuildFailed", "no"] } as const;
  flux.set(aKustomization("infra", { ...failing, spec }));
  await write();
  expect(news()).toContain(`${nameOf("infra")} failure no`);
});

test("what a newer commit superseded says so, whichever spelling it has", async () => {
  const { flux, write, news, sources } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  flux.set(overSsh(old), aKustomization("infra", { ...before, spec }));
  await write();
  news();
  sources.refs["refs/heads/main"] = later;
  const ahead = { attempted: later, applied: later, ready: ["True", "ReconciliationSucceeded"] } as const;
  flux.set(aFluxSource({ commit: later }), aKustomization("apps", ahead));
  flux.set(overSsh(later), aKustomization("infra", { ...ahead, spec }));
  await write();
  expect(news()).toEqual([
    `${nameOf("apps")} canceled superseded by a newer commit`,
    `${nameOf("infra")} canceled superseded by a newer commit`,
    "towline canceled 2 deployments: 2 superseded",
  ]);
});

test("what applies the repository no more ends, whichever spelling it had", async () => {
  const { flux, write, news } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  const infra = aKustomization("infra", { ...before, spec, attempting: old, ready: inProgress });
  flux.set(overSsh(old), infra);
  await write();
  news();
  flux.remove(infra);
  await write();
  expect(news()).toContain(`${nameOf("infra")} canceled Flux does not apply it any more`);
});
